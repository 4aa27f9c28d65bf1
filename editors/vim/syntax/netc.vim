" Vim syntax of netc's .net files. tests/lsp/syntax.py compares its words with the scanner's.
if exists('b:current_syntax')
  finish
endif

syn match netcCall /\<\h\w*\ze(/
syn match netcNumber /\<\%(0[xX]\x[0-9a-fA-F_]*\|\d\%(_\?\d\)*\%(\.\d\%(_\?\d\)*\)\?\%([eE][+-]\?\d\+\)\?\)\>/
syn match netcOperator /<-\|->\|\.\.\.\?\|[=!<>]=\|\/\/\|\*\*\|[-+*\/%=<>]/
syn keyword netcControl if else then for in as reuse return
syn keyword netcWordOperator and or not
syn keyword netcConstant true false inf nan none
syn keyword netcType bool u8 i32 u32 i64 bf16 f16 f32 f64
syn match netcMember /\.\@1<=\h\w*/
" Words that are keywords only where a statement or a clause begins.
syn match netcHead /\<\%(fn\|extern\|model\|train\|use\|const\|dim\|setting\|entry\|cell\|module\|param\|state\|scratch\|loop\|emit\|tap\|assert\|minimize\|clip\|update\|evaluate\|recompute\|out\|launch\|reference\|cpu\|accumulate\)\>\ze\s\+\%(\%(in\|as\|reuse\|and\|or\|then\|else\|with\|over\|carry\|while\|frozen\|for\|from\|if\)\>\)\@!\%(\w\|["']\)/
syn match netcHead /\%(^\|[;{]\)\@1<=\s*\zs\<\%(tap\|assert\|minimize\|accumulate\|reference\)\>\ze\s*[({-]/
syn match netcClause /\<\%(with\|over\|carry\|while\|from\|cuda\|grad\)\>\ze\s\+\%(\w\|["']\)/
syn match netcClause /\%(}\s*\)\@<=\<grad\>\ze\s*(/
syn match netcClause /\<frozen\>\ze\s*\%([#;}]\|$\)/
syn match netcFunction /\%(\<\%(fn\|model\)\s\+\)\@<=\h\w*/
syn match netcEscape contained /\\\%(x\x\x\|u\x\{4}\|.\)/
syn region netcString oneline start=/"/ skip=/\\./ end=/"/ contains=netcEscape
syn region netcString oneline start=/'/ skip=/\\./ end=/'/ contains=netcEscape
syn match netcComment /#.*$/ contains=@Spell

hi def link netcCall Function
hi def link netcNumber Number
hi def link netcOperator Operator
hi def link netcControl Statement
hi def link netcWordOperator Operator
hi def link netcConstant Constant
hi def link netcType Type
hi def link netcHead Keyword
hi def link netcClause Keyword
hi def link netcFunction Function
hi def link netcEscape SpecialChar
hi def link netcString String
hi def link netcComment Comment

let b:current_syntax = 'netc'
