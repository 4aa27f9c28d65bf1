"""The syntax files of editors/: their words are the scanner's; tried in the editors that are here."""
import glob, json, re, shutil, subprocess
from check import *


def read(path):
    with open(os.path.join(root, path)) as f:
        return f.read()


def table(path, begin, end):
    text = read(path)
    at = text.index(begin)
    return set(re.findall(r'"(\w+)"', text[at:text.index(end, at)]))


reserved = table("frontend/scan.l", "} reserved[] = {", "};")
heads = table("frontend/layout.c", "} heads[] = {", "};")
clauses = table("frontend/layout.c", "*const words[] = {", "};")
types = set(re.findall(r'^DTYPE\(\w+, +"(\w+)"', read("ir/dtypes.def"), re.M))
check(len(reserved) > 10 and len(heads) > 20 and len(clauses) > 5 and len(types) > 8, reserved, heads, clauses, types)


def same(what, where, found, wanted):
    check(found == wanted, what, where, "lacks", wanted - found, "has", found - wanted)


@part
def textmate():
    g = json.loads(read("editors/vscode/syntaxes/netc.tmLanguage.json"))
    found = {}
    for p in g["patterns"]:
        if "match" not in p:
            continue
        scope = p.get("name") or p["captures"]["1"]["name"]
        group = re.search(r"\(((?:\w+\|)*\w+)\)", p["match"])
        if group:
            found.setdefault(scope, set()).update(group[1].split("|"))
    same("heads", "TextMate", found["keyword.control.statement.netc"], heads)
    same("clauses", "TextMate", found["keyword.control.clause.netc"], clauses)
    same("types", "TextMate", found["storage.type.netc"], types)
    same("reserved", "TextMate", (found["keyword.control.netc"] | found["keyword.operator.word.netc"] |
                                  found["constant.language.netc"]) - {"none"}, reserved)
    for f in ["package.json", "language-configuration.json"]:
        json.loads(read("editors/vscode/" + f))
    p = json.loads(read("editors/vscode/package.json"))
    for path in [p["main"], p["contributes"]["languages"][0]["configuration"], p["contributes"]["grammars"][0]["path"]]:
        check(os.path.exists(os.path.join(root, "editors/vscode", path)), path)


@part
def vim_words():
    text = read("editors/vim/syntax/netc.vim")
    def of(group):
        words = set()
        for kind, rest in re.findall(rf"^syn (keyword|match) {group} (.*)$", text, re.M):
            if kind == "keyword":
                words |= set(rest.split())
            else:
                first = re.search(r"\\<\\%\(([\w\\|]+)\\\)\\>|\\<(\w+)\\>", rest)
                words |= set((first[1] or first[2]).split("\\|"))
        return words
    same("heads", "Vim", of("netcHead"), heads)
    same("clauses", "Vim", of("netcClause"), clauses)
    same("types", "Vim", of("netcType"), types)
    same("reserved", "Vim", (of("netcControl") | of("netcWordOperator") | of("netcConstant")) - {"none"}, reserved)


def sources():
    return sorted(glob.glob(os.path.join(root, "samples/*/*.net")) + glob.glob(os.path.join(root, "frontend/std/*.net")))


@part
def pygments():
    try:
        from pygments.token import Error, Keyword, Name
    except ImportError:
        print("skip no pygments: its lexer is not tried")
        return
    sys.path.insert(0, os.path.join(root, "editors/pygments"))
    import netc_lexer as n
    same("heads", "Pygments", set(n.HEADS), heads)
    same("clauses", "Pygments", set(n.CLAUSES), clauses)
    same("types", "Pygments", set(n.TYPES), types)
    same("reserved", "Pygments", set(n.CONTROL + n.WORD_OPERATORS + n.CONSTANTS), reserved)
    lexer = n.NetcLexer(stripnl=False, ensurenl=False)
    for f in sources():
        text = open(f).read()
        tokens = list(lexer.get_tokens(text))
        check("".join(v for _, v in tokens) == text and not any(t is Error for t, _ in tokens), f)
    def kinds(text, word):
        return [t for t, v in lexer.get_tokens(text) if v == word]
    check(kinds("model m() {\n    state = out - update\n    state h: f32[3] = 0\n}\n", "state") == [Name, Keyword], "a keyword where it is one")
    check(kinds("y = state as h\n", "state") == [Name] and kinds("    minimize loss over p\n", "over") == [Keyword], "clauses")


def editor(command, *args, env=None):
    return subprocess.run([command, *args], capture_output=True, text=True, timeout=1200, stdin=subprocess.DEVNULL,
                          env=dict(os.environ, **(env or {})))


@part
def indentation():
    """What Vim makes of a text without its indentation is what netc fmt makes of it."""
    command = shutil.which("nvim") or shutil.which("vim")
    if not command:
        print("skip neither nvim nor vim: indentation is not tried")
        return
    os.makedirs(os.path.join(folder, "vim"), exist_ok=True)
    names, script = [], ["filetype plugin indent on", "syntax on"]
    for i, f in enumerate(sources()[::3] + [os.path.join(root, "tests/net/lang/gradients.net")]):  # all of them by hand, once
        name = os.path.join(folder, "vim", f"{i}.net")
        with open(name, "w") as out:
            out.write("".join(line.lstrip(" ") for line in open(f)))
        names.append((name, f))
        script += [f"edit {name}", "normal! gg=G", "write!"]
    # Of one text, what each word is.
    script += ["enew", "setfiletype netc", "call setline(1, ['model m(x: f32[3]) {', '    state = out - 1', '    return relu(state) # as', '}'])",
               "let kinds = map([[1, 1], [1, 7], [1, 12], [2, 5], [2, 13], [3, 5], [3, 12], [3, 26]], 'synIDattr(synID(v:val[0], v:val[1], 1), \"name\")')",
               f"call writefile(kinds, '{folder}/vim/kinds')", "qall!"]
    with open(os.path.join(folder, "vim/script.vim"), "w") as out:
        out.write("\n".join(script) + "\n")
    flags = ["--headless", "-u", "NONE"] if "nvim" in command else ["-es", "-N", "-u", "NONE", "-i", "NONE"]
    r = editor(command, *flags, "--cmd", f"set runtimepath+={root}/editors/vim noswapfile nomore", "-S", os.path.join(folder, "vim/script.vim"))
    for name, f in names:
        check(open(name).read() == open(f).read(), "indented otherwise:", f)
    kinds = open(os.path.join(folder, "vim/kinds")).read().split("\n")[:8]
    check(kinds == ["netcHead", "netcFunction", "netcType", "", "", "netcControl", "netcCall", "netcComment"], kinds, r.stderr[-300:])


@part
def neovim():
    command = shutil.which("nvim")
    if not command:
        print("skip no nvim: the language server is not tried in an editor")
        return
    setups = re.findall(r"(?:^    .*\n|^\n)+", read("docs/editors.md"), re.M)
    setup = [s for s in setups if "nvim_create_autocmd" in s][0]
    file, result = write("vim/mlp.net", read("samples/mnist/mlp.net").replace("relu(", "reluu(")), os.path.join(folder, "vim/out.json")
    os.makedirs(os.path.join(folder, "bin"), exist_ok=True)
    link = os.path.join(folder, "bin/netc")
    if not os.path.lexists(link):
        os.symlink(os.path.abspath(netc), link)
    # What the set-up takes that versions before 0.8 lack.
    old = "vim.g.do_filetype_lua = 1\nif not vim.lsp.start then vim.lsp.start = function(c) vim.lsp.buf_attach_client(0, vim.lsp.start_client(c)) end end\n"
    init = write("vim/init.lua", old + setup)
    r = editor(command, "--headless", "-n", "-i", "NONE", "-u", init, "-S", os.path.join(root, "tests/lsp/neovim.lua"),
               env={"NET_FILE": file, "NET_OUT": result, "PATH": os.path.join(folder, "bin") + ":" + os.environ["PATH"]})
    if not os.path.exists(result):
        check(False, "Neovim wrote nothing:", r.stdout[-1000:], r.stderr[-2000:])
        return
    got = json.load(open(result))
    check(got["filetype"] == "netc", got)
    check("did you mean 'relu'" in (got["diagnostics"] or ""), got)
    check(got["corrected"] is True, got)
    check("f32[batch=128, 128]" in str(got.get("hover")), got)
    check("fn linear(" in str(got["definition"]), got)
    check(got["renamed"] is True and got["formatted"] == "const loose = 1", got)


finish()
