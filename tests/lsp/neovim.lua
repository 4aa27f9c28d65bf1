-- Run by syntax.py in a headless Neovim whose set-up is that of docs/editors.md.
local out = {}
local function say(key, value) out[key] = value end
local function wait(f) return vim.wait(1200000, f, 20) end
local function request(method, params)
  local answers = vim.lsp.buf_request_sync(0, "textDocument/" .. method, params, 1200000) or {}
  for _, a in pairs(answers) do return a.result end
end

vim.cmd("edit " .. vim.env.NET_FILE)
say("filetype", vim.bo.filetype)
say("diagnostics", wait(function() return #vim.diagnostic.get(0) == 1 end) and vim.diagnostic.get(0)[1].message)
local line = vim.diagnostic.get(0)[1].lnum
local text = vim.api.nvim_buf_get_lines(0, line, line + 1, false)[1]
vim.api.nvim_buf_set_lines(0, line, line + 1, false, { (text:gsub("reluu", "relu")) })
say("corrected", wait(function() return #vim.diagnostic.get(0) == 0 end))
vim.fn.cursor(line + 1, 5)
local hover = request("hover", vim.lsp.util.make_position_params())
say("hover", hover and hover.contents.value)
vim.fn.search("linear(")
vim.lsp.buf.definition()
say("definition", wait(function() return vim.fn.expand("%:t") == "nn.net" end) and vim.fn.getline("."))
vim.cmd("edit " .. vim.env.NET_FILE)
vim.fn.search("hidden")
vim.lsp.buf.rename("units")
say("renamed", wait(function() return vim.fn.search("units", "nw") > 0 end))
vim.api.nvim_buf_set_lines(0, 0, 0, false, { "const  loose=1" })
local edits = request("formatting", vim.lsp.util.make_formatting_params())
vim.lsp.util.apply_text_edits(edits, 0, "utf-16")
say("formatted", vim.fn.getline(1))
vim.cmd("write!")
local file = io.open(vim.env.NET_OUT, "w")
file:write(vim.fn.json_encode(out))
file:close()
vim.cmd("qall!")
