# bash completion for netc: verbs, the options of a verb (read from its --help), files.
_netc()
{
    local cur=${COMP_WORDS[COMP_CWORD]} verb=${COMP_WORDS[1]}
    local verbs="compile init train eval predict run generate tokenize inspect report check profile bench tune doctor show fmt lsp"
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
