# bash completion for netc: verbs and their options (both read from --help), files.
_netc()
{
    local cur=${COMP_WORDS[COMP_CWORD]} verb=${COMP_WORDS[1]}
    local verbs=$(netc --help 2>/dev/null | sed -n 's/^  \([a-z][a-z]*\)  *[A-Z].*/\1/p' | tr '\n' ' ')
    if [[ $cur == -* ]]; then
        [[ " $verbs " == *" $verb "* ]] || verb=compile
        COMPREPLY=($(compgen -W "$(netc "$verb" --help 2>/dev/null | grep -oE -- '--[a-z-]+')" -- "$cur"))
    elif [[ $COMP_CWORD == 1 ]]; then
        COMPREPLY=($(compgen -W "$verbs" -- "$cur") $(compgen -f -X '!*.net' -- "$cur"))
    else
        COMPREPLY=($(compgen -f -- "$cur"))
    fi
}
complete -o filenames -F _netc netc
