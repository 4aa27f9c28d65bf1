# The models of a file like bench/gpu_ops.net with other sizes, drawn from [seed]: sizes of a model's inputs above 16 that are equal stay
# equal, in its body too, and no tensor has more than twice as many elements as before. Models of which sizes depend on each other in
# other ways may become wrong; whoever compiles them says so.
#
#   awk -v seed=N -f bench/shapes.awk bench/gpu_ops.net
function uniform() { # (every awk has its own rand)
    state = state * 16807 % 2147483647
    return state / 2147483647
}
function drawn(n, kind) {
    kind = uniform()
    n = int(exp(log(n) + (uniform() * 7 - 5) * log(2)) + 0.5)
    if (kind < 0.2) n = 2 ^ int(log(n + 1) / log(2) + 0.5)
    else if (kind < 0.4) n = int((n + 7) / 8) * 8
    return n < 1 ? 1 : n
}
function elements(list, sizes, k, i, product) { # of a tensor; its sizes of a model are in [to]
    k = split(list, sizes, /, */)
    for (product = i = 1; i <= k; i++) product *= sizes[i] in to ? to[sizes[i]] : sizes[i]
    return product
}
function fits(head, list, before, now, saved) { # no tensor is larger by far, nor all of them tiny
    for (now = before = 0; match(head, /\[[0-9, ]+\]/); head = substr(head, RSTART + RLENGTH)) {
        list = substr(head, RSTART + 1, RLENGTH - 2)
        now = elements(list) > now ? elements(list) : now
        split("", saved)
        for (n in to) { saved[n] = to[n]; to[n] = n }
        before = elements(list) > before ? elements(list) : before
        for (n in saved) to[n] = saved[n]
    }
    return now <= 2 * before && now >= before / 50
}
function draw(head, rest, n, tries) { # fills [to]
    split("", to)
    for (rest = head; match(rest, /\[[0-9, ]+\]/); rest = substr(rest, RSTART + RLENGTH)) {
        k = split(substr(rest, RSTART + 1, RLENGTH - 2), sizes, /, */)
        for (i = 1; i <= k; i++) if (sizes[i] > 16) to[sizes[i]] = sizes[i]
    }
    for (tries = 0; tries < 1000; tries++) {
        for (n in to) to[n] = drawn(n)
        if (fits(head)) return
    }
    for (n in to) to[n] = n
}
function resized(text, made, number) {
    for (made = ""; match(text, /[A-Za-z_0-9.]+/); text = substr(text, RSTART + RLENGTH)) {
        number = substr(text, RSTART, RLENGTH)
        before = ""
        if (match(number, /^0\.\.[0-9]+$/)) { before = "0.."; number = substr(number, 4) }
        match(text, /[A-Za-z_0-9.]+/)
        made = made substr(text, 1, RSTART - 1) before (number ~ /^[0-9]+$/ && number in to ? to[number] : number)
    }
    return made text
}
BEGIN { for (state = seed + 1; i < 9; i++) uniform() }
/^model / { draw(substr($0, 1, index($0, ") {"))) }
/^ *#/ { print; next }
{ print resized($0) }
