" Indentation of netc's .net files, as netc fmt has it.
if exists('b:did_indent')
  finish
endif
let b:did_indent = 1

setlocal indentexpr=NetcIndent(v:lnum) indentkeys=0},0),0],o,O
let b:undo_indent = 'setlocal indentexpr< indentkeys<'

if exists('*NetcIndent')
  finish
endif

" The line without strings and its comment.
function s:Code(lnum)
  let text = substitute(getline(a:lnum), '"\%([^"\\]\|\\.\)*"\|''\%([^''\\]\|\\.\)*''', '""', 'g')
  return substitute(substitute(text, '#.*', '', ''), '\s*$', '', '')
endfunction

" Does its statement go on behind the line?
function s:GoesOn(lnum)
  return s:Code(a:lnum) =~# '\%([-+*/%=,<>]\|\<\%(and\|or\|not\|then\|else\|in\)\)$'
endfunction

function s:Before(lnum)
  let lnum = prevnonblank(a:lnum - 1)
  while lnum > 0 && s:Code(lnum) ==# ''
    let lnum = prevnonblank(lnum - 1)
  endwhile
  return lnum
endfunction

" The line where the innermost bracket around this one was opened, or 0, and the bracket.
function s:Holder(lnum)
  let depth = 0
  let lnum = a:lnum - 1
  while lnum > 0
    for c in reverse(split(s:Code(lnum), '\zs'))
      if c =~# '[])}]'
        let depth += 1
      elseif c =~# '[{([]'
        if depth == 0
          return [lnum, c]
        endif
        let depth -= 1
      endif
    endfor
    let lnum -= 1
  endwhile
  return [0, '{']
endfunction

function NetcIndent(lnum)
  let [holder, bracket] = s:Holder(a:lnum)
  let base = holder ? indent(holder) : -shiftwidth()
  if getline(a:lnum) =~# '^\s*[])}]'
    return max([base, 0])
  endif
  let before = s:Before(a:lnum)
  if bracket !=# '{' || before <= holder || !s:GoesOn(before)
    return base + shiftwidth()
  endif
  let first = before
  while s:Before(first) > holder && s:GoesOn(s:Before(first))
    let first = s:Before(first)
  endwhile
  return indent(first) + (getline(first) =~# '^\s*return\>' ? 7 : shiftwidth())
endfunction
