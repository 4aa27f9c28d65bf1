autocmd BufRead,BufNewFile *.net setfiletype netc
