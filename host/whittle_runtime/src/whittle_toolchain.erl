%% @hidden Writes the lines of sh and the flags that recipes for one target share.
-module(whittle_toolchain).

-export([tools/2, cflags/2, lto/1, cxx_masks/1, kernel_headers/2, page_size/1, words/1]).

%% @doc Lines that set the tools and the flags of a target for what follows. Where its C
%% library is one of ours, the variable LIBC names the artefact.
-spec tools(whittle_target:target(), [string()]) -> [string()].
tools(Target, Cflags0) ->
    #{cc := Cc0, cxx := Cxx0, ar := Ar, ranlib := Ranlib, ldflags := Ldflags} = Target,
    {Specs, Cflags} = case Target of
                          #{libc := ""} -> {"", Cflags0};
                          #{} -> {" -specs=$LIBC/lib/musl-gcc.specs",
                                  ["-ffile-prefix-map=$LIBC=libc" | Cflags0]}
                      end,
    [Cc, Cxx] = [case Command of
                     "" -> "false";
                     _ -> Command ++ Specs
                 end || Command <- [Cc0, Cxx0]],
    ["export CC=\"" ++ Cc ++ "\" LD=\"" ++ Cc ++ "\" CXX=\"" ++ Cxx ++ "\"",
     "export AR=\"" ++ Ar ++ "\" RANLIB=\"" ++ Ranlib ++ "\"",
     "export CFLAGS=\"" ++ string:join(Cflags, " ") ++ "\"",
     "export CXXFLAGS=\"$CFLAGS -fno-exceptions -fno-rtti\"",
     "export LDFLAGS=\"" ++ string:join(["-static", page_size(Target) | Ldflags], " ") ++ "\""].

%% @doc The linker's flag for pages. Each segment begins at a page of its own, also on the kernel
%% with the largest pages; each segment costs bytes in the file.
-spec page_size(whittle_target:target()) -> string().
page_size(#{page_size := Bytes}) ->
    "-Wl,-z,max-page-size=" ++ integer_to_list(Bytes).

%% @doc The compiler's flags for a target and a flavour.
%%
%% No unwind tables: nothing unwinds.
-spec cflags(whittle_target:target(), size | speed) -> [string()].
cflags(#{cflags := Target}, Flavour) ->
    [case Flavour of size -> "-Os"; speed -> "-O2" end,
     "-fno-asynchronous-unwind-tables", "-fno-unwind-tables",
     "-ffunction-sections", "-fdata-sections", "-fno-strict-aliasing", "-fno-pie"]
        ++ Target.

%% @doc Further flags for C++: Debian's headers take the classes of characters from glibc's
%% ctype.h, which numbers their bits in this order: in network order as they stand, else with
%% the bytes exchanged.
-spec cxx_masks(whittle_target:target()) -> string().
cxx_masks(#{endian := Endian}) ->
    Names = ["upper", "lower", "alpha", "digit", "xdigit", "space", "print", "graph",
             "blank", "cntrl", "punct", "alnum"],
    lists:flatten([io_lib:format(" -D_IS~s=~b", [Name, mask(Endian, Bit)])
                  || {Bit, Name} <- lists:zip(lists:seq(0, 11), Names)]).

mask(big, Bit) -> 1 bsl Bit;
mask(little, Bit) when Bit < 8 -> 1 bsl (Bit + 8);
mask(little, Bit) -> 1 bsl (Bit - 8).

%% @doc Lines that make a directory, a word of sh, which holds the target's headers of the
%% kernel and nothing else: beside them lie those of another C library.
-spec kernel_headers(whittle_target:target(), string()) -> [string()].
kernel_headers(#{kernel_headers := []}, _) ->
    [];
kernel_headers(#{kernel_headers := Directories}, To) ->
    ["mkdir " ++ To,
     "for headers in" ++ words(Directories) ++ "; do",
     "  [ -d \"$headers\" ] || { echo \"there is no $headers\"; exit 1; }",
     "  ln -s \"$headers\" " ++ To,
     "done"].

%% @doc The flags of link-time optimization. The interpreter gets smaller when the linker sees all
%% of it; the JIT's C++ does not. The flags do not name a number of jobs, because the VM shows the
%% flags that it was compiled with.
-spec lto(size | speed) -> [string()].
lto(size) -> ["-flto"];
lto(speed) -> [].

%% @doc Words with a space before each.
-spec words([string()]) -> string().
words(Words) ->
    lists:append([" " ++ W || W <- Words]).
