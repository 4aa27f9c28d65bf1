# netc. Products go to build/. `make V=1` shows commands. Targets: all deps test demo asan bench
# install format clean.
BUILD  ?= build
CC     ?= cc
PREFIX ?= /usr/local
OPT    ?= -O2
CFLAGS += -std=gnu17 $(OPT) -g -Wall -Wextra -Werror -fwrapv -fPIC -fvisibility=hidden -I. -I$(BUILD) -Iinclude -D_GNU_SOURCE
CFLAGS += $(SANITIZE)
LDLIBS  = -ldl -lm -lpthread -lz
JOBS    ?= $(shell nproc 2>/dev/null || echo 2)
Q       = $(if $(V),,@)
say     = $(if $(V),,@printf '  %-5s %s\n' $(1) $(2);)

FOLDERS = base ir frontend passes codegen runtime lib
SRC     = $(foreach d,$(FOLDERS),$(sort $(wildcard $(d)/*.c $(d)/*/*.c)))
GEN     = $(BUILD)/frontend/parse.c $(BUILD)/frontend/scan.c $(BUILD)/frontend/std_text.c \
          $(BUILD)/codegen/prelude_text.c $(BUILD)/lib/inspect/report_text.c
OBJ     = $(SRC:%.c=$(BUILD)/%.o) $(GEN:%.c=%.o)
CLI_OBJ = $(patsubst %.c,$(BUILD)/%.o,$(sort $(wildcard cli/*.c lsp/*.c)))
UNIT    = $(patsubst %.c,$(BUILD)/%,$(sort $(wildcard tests/unit/*.c)))

all: $(BUILD)/netc $(BUILD)/libnetc.so $(BUILD)/libnetc.a

# One archive a folder, so that a unit test links only what lies below what it tests.
define ARCHIVE
$(BUILD)/lib_$(1).a: $(filter $(BUILD)/$(1)/%,$(OBJ))
	$(call say,AR,$$@)rm -f $$@ && ar qcs $$@ $$^
endef
$(foreach d,$(FOLDERS),$(eval $(call ARCHIVE,$(d))))

# One object whose only global names are the public ones, so that a host's names never clash.
$(BUILD)/libnetc.a: $(OBJ)
	$(call say,AR,$@)rm -f $@ && ld -r -o $(BUILD)/netc.o $^ && objcopy --localize-hidden $(BUILD)/netc.o && \
	  ar rcs $@ $(BUILD)/netc.o

$(BUILD)/libnetc.so: $(OBJ)
	$(call say,LD,$@)$(CC) $(SANITIZE) -shared -o $@ $^ $(LDLIBS) -Wl,-soname,libnetc.so.0 && \
	  ln -sf libnetc.so $@.0

$(BUILD)/netc: $(CLI_OBJ) $(BUILD)/libnetc.a $(BUILD)/lib_base.a
	$(call say,LD,$@)$(CC) $(SANITIZE) -o $@ $^ $(LDLIBS)

$(BUILD)/%.o: %.c | $(GEN)
	@mkdir -p $(@D)
	$(call say,CC,$<)$(CC) $(CFLAGS) -MMD -MP -c -o $@ $<

$(BUILD)/%.o: $(BUILD)/%.c
	$(call say,CC,$<)$(CC) $(CFLAGS) -Wno-unused-function -Wno-sign-compare -Wno-unused-but-set-variable -MMD -MP -c -o $@ $<

$(BUILD)/frontend/parse.c: frontend/parse.y
	@mkdir -p $(@D)
	$(call say,BISON,$<)bison -Wall -Werror=conflicts-sr -o $@ --header=$(BUILD)/frontend/parse.h $<

$(BUILD)/frontend/scan.c: frontend/scan.l $(BUILD)/frontend/parse.c
	@mkdir -p $(@D)
	$(call say,FLEX,$<)flex -o $@ --header-file=$(BUILD)/frontend/scan.h $<

# Text files become C arrays: const EmbeddedFile std_files[], prelude_files[] and report_files[] (tools/embed.sh).
$(BUILD)/frontend/std_text.c: tools/embed.sh $(wildcard frontend/std/*.net)
	@mkdir -p $(@D)
	$(call say,EMBED,$@)sh tools/embed.sh std_files $(filter %.net,$^) > $@

$(BUILD)/codegen/prelude_text.c: tools/embed.sh $(wildcard codegen/prelude/*)
	@mkdir -p $(@D)
	$(call say,EMBED,$@)sh tools/embed.sh prelude_files $(filter codegen/%,$^) > $@

$(BUILD)/lib/inspect/report_text.c: tools/embed.sh $(sort $(wildcard lib/inspect/report/*))
	@mkdir -p $(@D)
	$(call say,EMBED,$@)sh tools/embed.sh report_files $(filter lib/%,$^) > $@

# tests/unit/FOLDER_name.c is linked with FOLDER and what FOLDER may include.
BELOW_base     = base
BELOW_ir       = ir base
BELOW_frontend = frontend ir base
BELOW_passes   = passes ir base
BELOW_codegen  = codegen passes ir base
BELOW_runtime  = runtime codegen ir base
BELOW_lib      = lib frontend passes runtime codegen ir base
.SECONDEXPANSION:
unit_libs = $(foreach d,$(BELOW_$(firstword $(subst _, ,$(notdir $(1))))),$(BUILD)/lib_$(d).a)
$(UNIT): $(BUILD)/tests/unit/%: $(BUILD)/tests/unit/%.o $$(call unit_libs,$$*)
	$(call say,LD,$@)$(CC) $(SANITIZE) -o $@ $< -Wl,--start-group $(call unit_libs,$*) -Wl,--end-group $(LDLIBS)

# Allocations that fail (tests/unit/oom.h).
comma := ,
$(BUILD)/tests/unit/lib_oom $(BUILD)/tests/unit/lib_oom_tools: LDLIBS += $(foreach f,malloc calloc realloc aligned_alloc posix_memalign \
    strdup strndup asprintf free,-Wl$(comma)--wrap=$(f))

# Random programs (tests/fuzz/programs).
PROGRAMS_OBJ = $(patsubst %.c,$(BUILD)/%.o,$(sort $(wildcard tests/fuzz/programs/*.c)))
$(BUILD)/fuzz-programs: $(PROGRAMS_OBJ) $(foreach d,$(FOLDERS),$(BUILD)/lib_$(d).a)
	$(call say,LD,$@)$(CC) $(SANITIZE) -o $@ $(PROGRAMS_OBJ) -Wl,--start-group $(filter %.a,$^) -Wl,--end-group $(LDLIBS)

# A CUDA device made of the host, for tests without a GPU (tests/shim/shim.h).
SHIM      = $(addprefix $(BUILD)/shim/,libcuda.so.1 libnvrtc.so.13 libcublasLt.so.13 libcudnn.so.9)
SHIM_CC   = $(CC) -std=c17 -O3 -ffp-contract=off $(SHIM_LTO) -g -fPIC -fno-semantic-interposition -shared -Wall -Wextra -Werror -D_GNU_SOURCE -I. \
            -DSHIM_HOME='"$(CURDIR)/tests/shim"'
# (most of what tests on it take is calls between its files)
SHIM_LTO  = $(if $(findstring clang,$(CC)),,-flto=1)
SHIM_SRC  = $(addprefix tests/shim/,driver.c devices.c stream.c grid.c atomic.c late.c matrix.c memory.c recall.c compile.c rewrite.c builtin.c others.c) base/arena.c base/buf.c base/plain.c
$(BUILD)/shim/libcuda.so.1: $(SHIM_SRC) $(wildcard tests/shim/*.h)
	@mkdir -p $(@D)
	$(call say,SHIM,$@)$(SHIM_CC) -Wl,-soname,$(@F) -o $@ $(SHIM_SRC) -lm -ldl -lpthread
$(BUILD)/shim/libnvrtc.so.13: tests/shim/nvrtc.c tests/shim/shim.h
	@mkdir -p $(@D)
	$(call say,SHIM,$@)$(SHIM_CC) -Wl,-soname,$(@F) -o $@ $<
	$(Q)ln -sf $(@F) $(@D)/libnvrtc.so
$(BUILD)/shim/libcublasLt.so.13: tests/shim/cublaslt.c tests/shim/element.h $(BUILD)/shim/libcuda.so.1
	$(call say,SHIM,$@)$(SHIM_CC) -Wl,-soname,$(@F) -o $@ $(filter-out %.h,$^) -lm
$(BUILD)/shim/libcudnn.so.9: tests/shim/cudnn.c tests/shim/element.h $(BUILD)/shim/libcuda.so.1
	$(call say,SHIM,$@)$(SHIM_CC) -Wl,-soname,$(@F) -o $@ $(filter-out %.h,$^) -lm

# Everything the tests run.
unit: $(UNIT) $(BUILD)/digits-gen $(BUILD)/host $(BUILD)/fuzz-programs $(SHIM)

# Warnings only, for a second compiler: make CC=clang syntax
syntax: $(GEN)
	$(Q)$(CC) $(CFLAGS) -fsyntax-only $(SRC) $(wildcard cli/*.c lsp/*.c tools/*.c samples/host/*.c tests/unit/*.c)

$(BUILD)/digits-gen: tools/digits.c
	@mkdir -p $(@D)
	$(call say,CC,$<)$(CC) $(CFLAGS) $(SANITIZE) -o $@ $< -lm

$(BUILD)/host: samples/host/host.c $(BUILD)/libnetc.a include/netc.h
	$(call say,LD,$@)$(CC) $(CFLAGS) -o $@ $< $(BUILD)/libnetc.a $(LDLIBS)

# The Python package, as it is installed: PYTHONPATH=build/python. `pip install .` makes it, too.
PYTHON  ?= python3
PYTHON_INCLUDE = $(shell $(PYTHON) -c 'import sysconfig; print(sysconfig.get_path("include"))')
PY_OBJ  = $(patsubst %.c,$(BUILD)/%.o,$(sort $(wildcard python/ext/*.c)))
PY_TEXT = $(patsubst python/%,$(BUILD)/python/%,$(wildcard python/netc/*.py python/netc/*.pyi python/netc/py.typed))
$(PY_OBJ): include/netc.h $(wildcard python/ext/*.h) # (a BUILD named otherwise finds no .d of them)
$(PY_OBJ): CFLAGS += -DPy_LIMITED_API=0x030A0000 -isystem $(PYTHON_INCLUDE)
$(BUILD)/python/netc/_netc.abi3.so: $(PY_OBJ) $(BUILD)/libnetc.a
	@mkdir -p $(@D)
	$(call say,LD,$@)$(CC) $(SANITIZE) -shared -o $@ $^ $(LDLIBS) -Wl,--version-script=python/ext/exports.map
$(PY_TEXT): $(BUILD)/python/%: python/%
	@mkdir -p $(@D)
	$(Q)cp $< $@
python: $(BUILD)/python/netc/_netc.abi3.so $(PY_TEXT)
wheel:
	$(Q)BUILD=$(BUILD) CC='$(CC)' PLATFORM=$(PLATFORM) $(PYTHON) python/backend.py $(BUILD)

deps:
	$(Q)sh tools/deps.sh

# deps may install flex and bison, so the build is a make of its own after it.
test: deps
	$(Q)$(MAKE) --no-print-directory -j$(JOBS) all unit
	$(Q)bash tests/run.sh $(BUILD) $(T)

demo: deps
	$(Q)$(MAKE) --no-print-directory -j$(JOBS) all $(BUILD)/digits-gen
	$(Q)bash tools/demo.sh $(BUILD)

# The whole suite under the address and undefined-behaviour sanitizers.
asan:
	$(Q)$(MAKE) --no-print-directory test BUILD=build-asan OPT=-O1 \
	  SANITIZE='-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer'

# On a GPU the table of docs/performance.md; elsewhere what a CPU can measure.
bench: all
	$(Q)if command -v nvidia-smi >/dev/null && nvidia-smi -L >/dev/null 2>&1; then bash bench/gpu.sh $(BUILD); \
	  else bash bench/run.sh $(BUILD); fi

# MINUTES of random programs after the readers.
fuzz: $(BUILD)/fuzz-programs
	$(Q)bash tests/fuzz/run.sh
	$(Q)$(BUILD)/fuzz-programs --count 100000000 --minutes $(or $(MINUTES),30) --seed $$(date +%s) --out $(BUILD)/programs

# Single mistakes in generated kernels, which the checks must catch. T: words of mutants' names.
mutants: all unit
	$(Q)bash tests/mutants/run.sh $(BUILD) $(T)

format:
	$(Q)clang-format -i $$(git ls-files '*.c' '*.h')

install: all
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/lib/pkgconfig $(DESTDIR)$(PREFIX)/include \
	  $(DESTDIR)$(PREFIX)/share/man/man1 $(DESTDIR)$(PREFIX)/share/bash-completion/completions
	install -m 755 $(BUILD)/netc $(DESTDIR)$(PREFIX)/bin/
	install -m 755 $(BUILD)/libnetc.so $(DESTDIR)$(PREFIX)/lib/libnetc.so.0
	ln -sf libnetc.so.0 $(DESTDIR)$(PREFIX)/lib/libnetc.so
	install -m 644 $(BUILD)/libnetc.a $(DESTDIR)$(PREFIX)/lib/
	install -m 644 include/netc.h $(DESTDIR)$(PREFIX)/include/
	sed 's|@PREFIX@|$(PREFIX)|' tools/netc.pc.in > $(DESTDIR)$(PREFIX)/lib/pkgconfig/netc.pc
	sh tools/man.sh $(BUILD)/netc docs/netc.1 > $(DESTDIR)$(PREFIX)/share/man/man1/netc.1
	install -m 644 tools/completion.bash $(DESTDIR)$(PREFIX)/share/bash-completion/completions/netc
	@[ -n "$(DESTDIR)" ] || ldconfig 2>/dev/null || true # so that programs find the library at once

clean:
	rm -rf $(BUILD)

.PHONY: all unit python wheel syntax clean deps test demo asan bench fuzz mutants format install
.DELETE_ON_ERROR:
-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
