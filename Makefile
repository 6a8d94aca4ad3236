# Whittle's commands for people. `make demo` and `make test` are all that a
# newcomer needs; each installs what is missing (tools/setup) and says so.

OTP ?= 29
PART ?=
TARGETS ?= armv7 mips
# Only these parts of the tests run programs that Whittle builds.
RUNTIMES := $(if $(PART),$(if $(filter host acceptance otp,$(PART)),runtimes),runtimes)
.NOTPARALLEL:
.PHONY: all demo test runtimes check format matrix otp-suites otp-suites-table beam-files web
.PHONY: programs natives board targets otp-suites-targets clean help

all: setup-build ## compile the command
	@rebar3 compile
	@mkdir -p out

demo: all ## build the examples, run one from a file in an empty chroot, print the ledger
	@tools/demo

test: setup-build+test+cross+board+web+lib all $(RUNTIMES) ## all tests; PART="web lib" runs only these parts
	@WHITTLE_TARGETS="$(TARGETS)" WHITTLE_OTP_ROOT="$$(tools/otp-root $(OTP))" tools/test $(PART)

# The long waits come first, and are visible: both VMs, the stock OTP and its suites. What
# is there already is not spoken of.
runtimes: all
	@./whittle build examples/hello -o out/hello
	@./whittle build fixtures/keeper -o out/keeper >out/keeper.txt
	@for target in $(TARGETS); do \
		./whittle build fixtures/agree --target $$target -o out/agree-$$target \
			>out/agree.txt || exit 1; done
	@acceptance/otp-suites --quick --list >out/otp-suites.txt

check: setup-build+test all format ## format, warnings, xref, dialyzer, tests
	@rebar3 xref
	@rebar3 dialyzer
	@tools/test host

format: ## no tabs, no trailing white space, no line past 100 columns
	@tools/format

matrix: setup-build+test all ## VMs of the other OTP releases and flavours (an hour and more)
	@rebar3 ct --dir host/whittle_runtime/matrix --readable=true
	@rebar3 ct --suite acceptance/suites/matrix_SUITE --group matrix --readable=true

otp-suites: all ## OTP's own suites on our VM (hours; goes on where it was ended)
	@acceptance/otp-suites

# 1 is a whole table too: of failures that nobody has explained yet.
otp-suites-table: all ## write what they came to into docs/
	@mkdir -p out/otp-suites
	@acceptance/otp-suites --table >out/otp-suites/table || [ $$? = 1 ]
	@[ -s out/otp-suites/table ]
	@sed "s|$(CURDIR)/||g" out/otp-suites/table >out/otp-suites/table.md
	@mv out/otp-suites/table.md docs/otp-suites-results.md

beam-files: setup-build+test all ## every BEAM file here and of OTP 25, 27, 29, rewritten (minutes)
	@acceptance/beam-files
	@acceptance/beam-files "$$(tools/otp-root 25)" "$$(tools/otp-root 27)" "$$(tools/otp-root 29)"

board: setup-build+test+board all ## the drivers on a real kernel, in qemu (makes a VM for ARMv7)
	@rebar3 ct --suite acceptance/suites/board_SUITE --readable=true

targets: setup-build+test+cross+targets all ## every target: built, run by qemu-user, compared
	@mkdir -p out/targets
	@acceptance/targets >out/targets/table; code=$$?; cat out/targets/table; exit $$code
	@cp out/targets/table docs/targets-results.md
	@WHITTLE_OTP_ROOT="$$(tools/otp-root $(OTP))" \
		rebar3 ct --suite acceptance/suites/agree_SUITE --readable=true

otp-suites-targets: setup-build+test+cross all ## a quick part of OTP's suites on armv7 and mips (TARGETS=... others)
	@for target in $(TARGETS); do acceptance/otp-suites --quick --target $$target || exit 1; done

natives: setup-build+test+cross+targets all ## jiffy, yaws and the NIFs of ejabberd, from Debian's sources, linked in
	@escript acceptance/natives/natives.escript x86_64 armv7

programs: all ## real programs of Debian, whole and shaken (makes VMs of OTP 25 if need be)
	@escript acceptance/programs/programs.escript
	@escript acceptance/programs/servers.escript

web: setup-web ## the web packages
	@$(MAKE) -C web test

# All groups of a target at once, so that what is missing is said once.
setup-%:
	@tools/setup $(subst +, ,$*)

clean: ## remove what was built here; the cache of VMs (README.md) stays
	@rm -rf _build out

help:
	@awk -F '##' '/^[a-z-]+:.*##/ { split($$1, t, ":"); \
		printf "  make %-17s %s\n", t[1], $$2 }' Makefile
