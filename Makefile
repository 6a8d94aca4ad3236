# Commands for developers. A newcomer needs only `make demo` and `make test`. Each one installs
# missing packages (tools/setup) and prints their names.

OTP ?= 29
PART ?=
TARGETS ?= armv7 mips
PARTS := $(or $(PART),host acceptance measure otp lib web)
# The groups of packages that each part of the tests needs (tools/packages).
NEEDS_host := build test
NEEDS_acceptance := build test cross board web
NEEDS_measure := build test cross web
NEEDS_otp := build test cross
NEEDS_lib := build lib
NEEDS_web := build web
GROUPS := $(filter build $(foreach part,$(PARTS),$(NEEDS_$(part))),build test cross board web lib)
SETUP := setup-$(shell echo $(GROUPS) | tr ' ' +)
# Each image also brings the kernel of its board into the cache.
BLINKY = ERL_LIBS="$(CURDIR)/_build/default/lib" ./whittle build examples/blinky \
	--board $(1) --shake functions --missing crash --feature +terms,-control \
	--env "ERL_FLAGS=-blinky device '\"ttyAMA0\"'" -o out/blinky-$(1).img
SLOTS = ERL_LIBS="$(CURDIR)/_build/default/lib" ./whittle build fixtures/slots \
	--board qemu-arm --format card --shake functions --missing crash --feature +terms,-control \
	--env WHITTLE_NETWORK=dhcp -o out/slots.card
# Only these parts run programs that Whittle builds.
VM := $(if $(filter host acceptance measure otp,$(PARTS)),vm)
RUNTIMES := $(if $(filter acceptance otp,$(PARTS)),runtimes)
.NOTPARALLEL:
.PHONY: all demo test vm runtimes check format xref matrix otp-suites otp-suites-table beam-files web
.PHONY: programs natives board boards cluster targets otp-suites-targets otp-study profile clean help

all: setup-build ## compile the command
	@rebar3 compile
	@mkdir -p out

demo: all ## build the examples, run one from a file in an empty chroot, print the ledger
	@tools/demo

test: $(SETUP) all format xref $(VM) ## check format and calls, run all tests; PART="web lib" runs only these parts
	@WHITTLE_TARGETS="$(TARGETS)" WHITTLE_OTP_ROOT="$$(tools/otp-root $(OTP))" \
		WHITTLE_PREPARE="$(if $(RUNTIMES),make --no-print-directory $(RUNTIMES))" tools/test $(PART)

vm: all
	@./whittle build examples/hello -o out/hello

# The long builds of the other VMs and of OTP's suites run beside the first parts of the tests
# (tools/test). So this target must change nothing that those use. A build that is in the cache
# prints nothing.
runtimes:
	@mkdir -p out
	@./whittle build fixtures/keeper -o out/keeper >out/keeper.txt
	@./whittle build examples/hello --shake functions --missing crash --vm program \
		-o out/hello-program >out/hello-program.txt 2>&1
	@for target in $(TARGETS); do \
		./whittle build fixtures/agree --target $$target -o out/agree-$$target \
			>out/agree.txt || exit 1; done
	@$(if $(filter acceptance,$(PARTS)),$(call BLINKY,qemu-arm) >out/blinky.txt)
	@acceptance/otp-suites --quick --list >out/otp-suites.txt

check: setup-build+test all format xref vm ## check format, calls and types, test the host tools
	@rebar3 dialyzer
	@WHITTLE_OTP_ROOT="$$(tools/otp-root $(OTP))" tools/test host

format: ## reject tabs, trailing white space and lines of more than 100 columns
	@tools/format

xref: all ## reject calls to functions that do not exist, and functions that nothing calls
	@rebar3 xref

matrix: setup-build+test all ## test VMs of the other OTP releases and flavors (more than an hour)
	@rebar3 ct --dir host/whittle_runtime/matrix --readable=true
	@rebar3 ct --suite acceptance/suites/matrix_SUITE --group matrix --readable=true

otp-suites: all ## run OTP's own suites on Whittle's VM (hours; continues an interrupted run)
	@acceptance/otp-suites

# Exit code 1 also gives a complete table, with failures that have no known reason yet.
otp-suites-table: all ## write the results of OTP's suites into docs/
	@mkdir -p out/otp-suites
	@acceptance/otp-suites --table >out/otp-suites/table || [ $$? = 1 ]
	@[ -s out/otp-suites/table ]
	@sed "s|$(CURDIR)/||g" out/otp-suites/table >out/otp-suites/table.md
	@mv out/otp-suites/table.md docs/otp-suites-results.md

beam-files: setup-build+test all ## rewrite and check every BEAM file here and of OTP 25, 27, 29 (minutes)
	@acceptance/beam-files
	@acceptance/beam-files "$$(tools/otp-root 25)" "$$(tools/otp-root 27)" "$$(tools/otp-root 29)"

board: setup-build+test+board all ## test the drivers on a real kernel, in qemu (builds a VM for ARMv7)
	@rebar3 ct --suite acceptance/suites/board_SUITE --readable=true

boards: setup-build+test+cross+targets+board all ## boot two unlike boards with a serial line between them (builds a VM for aarch64)
	@$(call BLINKY,qemu-arm)
	@$(call BLINKY,qemu-aarch64)
	@$(SLOTS)
	@rebar3 ct --suite acceptance/suites/image_SUITE,acceptance/suites/card_SUITE --readable=true
	@rebar3 compile
	@bench/boards out/blinky-qemu-arm.img
	@bench/boards out/blinky-qemu-aarch64.img
	@bench/boards out/slots.card

targets: setup-build+test+cross+targets all ## build for every target, run with qemu-user, compare the results
	@mkdir -p out/targets
	@acceptance/targets >out/targets/table; code=$$?; cat out/targets/table; exit $$code
	@cp out/targets/table docs/targets-results.md
	@WHITTLE_OTP_ROOT="$$(tools/otp-root $(OTP))" \
		rebar3 ct --suite acceptance/suites/agree_SUITE --readable=true

otp-suites-targets: setup-build+test+cross all ## run a quick part of OTP's suites on armv7 and mips (or TARGETS=...)
	@for target in $(TARGETS); do acceptance/otp-suites --quick --target $$target || exit 1; done

otp-study: setup-build all ## measure a changed OTP with `whittle measure otp` (builds an OTP and a VM)
	@acceptance/otp-study

profile: all ## make the profile of the VM again: TARGET=... (default x86_64; minutes)
	@tools/profile $(TARGET)

natives: setup-build+test+cross+targets all ## build jiffy, yaws and ejabberd's NIFs from Debian's sources, and test them
	@escript acceptance/natives/natives.escript x86_64 armv7

programs: all ## build real programs of Debian with and without tree shaking, compare (builds VMs of OTP 25)
	@escript acceptance/programs/programs.escript
	@escript acceptance/programs/servers.escript

cluster: setup-build+cluster all ## stage one and four nodes of docket, run a short study and show its page (root; minutes)
	@examples/docket/stage build
	@rm -rf out/cluster
	@./whittle measure examples/docket/studies/short.study -o out/cluster
	@echo "all studies of the cluster: examples/docket/README.md"

web: setup-web ## test the web packages
	@$(MAKE) -C web test

# One call installs all groups of a target, so that it lists the missing packages once.
setup-%:
	@tools/setup $(subst +, ,$*)

clean: ## remove the build directories; the cache of VMs (README.md) stays
	@rm -rf _build out

help:
	@awk -F '##' '/^[a-z-]+:.*##/ { split($$1, t, ":"); \
		printf "  make %-17s %s\n", t[1], $$2 }' Makefile
