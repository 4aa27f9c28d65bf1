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

" The innermost bracket that is open behind [text], the beginning of a line: its line, itself, and the text before it.
function s:Holder(lnum, text)
  let [depth, lnum, text] = [0, a:lnum, a:text]
  while lnum > 0
    for i in range(len(text) - 1, 0, -1)
      if text[i] =~# '[])}]'
        let depth += 1
      elseif text[i] =~# '[{([]'
        if depth == 0
          return [lnum, text[i], strpart(text, 0, i)]
        endif
        let depth -= 1
      endif
    endfor
    let lnum -= 1
    let text = s:Code(lnum)
  endwhile
  return [0, '{', '']
endfunction

" The indentation that holds behind [text]: of the line or, if it closes a bracket, of the line with that.
function s:Base(lnum, text)
  let [base, depth] = [a:lnum ? indent(a:lnum) : -shiftwidth(), 0]
  for i in range(len(a:text))
    if a:text[i] =~# '[{([]'
      let depth += 1
    elseif a:text[i] =~# '[])}]' && depth > 0
      let depth -= 1
    elseif a:text[i] =~# '[])}]'
      let [holder, _, before] = s:Holder(a:lnum, strpart(a:text, 0, i))
      let base = min([base, s:Base(holder, before)])
    endif
  endfor
  return base
endfunction

function NetcIndent(lnum)
  let [holder, bracket, text] = s:Holder(a:lnum - 1, s:Code(a:lnum - 1))
  let base = s:Base(holder, text)
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
