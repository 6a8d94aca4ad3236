%% @hidden Writes the lines of sh and the flags that recipes for one target share.
-module(whittle_toolchain).

-export([tools/2, cflags/2, lto/1, cxx_masks/1, kernel_headers/2, page_size/1, words/1]).

%% @doc Returns lines for sh that export a target's tools and flags.
%%
%% If Whittle builds the target's C library, the variable LIBC names its artifact.
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

%% @doc Returns the linker's flag for the page size.
%%
%% Each segment begins on its own page, also on the kernel with the largest pages. So each
%% segment costs bytes in the file.
-spec page_size(whittle_target:target()) -> string().
page_size(#{page_size := Bytes}) ->
    "-Wl,-z,max-page-size=" ++ integer_to_list(Bytes).

%% @doc Returns the compiler's flags for a target, and a flavor or a level of optimization.
%%
%% They omit unwind tables, because nothing unwinds the stack.
-spec cflags(whittle_target:target(), size | speed | whittle_runtime:level()) -> [string()].
cflags(#{cflags := Target}, FlavorOrLevel) ->
    [optimization(FlavorOrLevel),
     "-fno-asynchronous-unwind-tables", "-fno-unwind-tables",
     "-ffunction-sections", "-fdata-sections", "-fno-strict-aliasing", "-fno-pie"]
        ++ Target.

optimization(size) -> "-Os";
optimization(speed) -> "-O2";
optimization(o2) -> "-O2";
optimization(o3) -> "-O3";
optimization(os) -> "-Os";
optimization(oz) -> "-Oz".

%% @doc Returns additional flags for C++ that define the masks of character classes.
%%
%% Debian's C++ headers take these masks from glibc's ctype.h. glibc numbers the bits in this
%% order in network byte order; little-endian machines exchange the two bytes.
-spec cxx_masks(whittle_target:target()) -> string().
cxx_masks(#{endian := Endian}) ->
    Names = ["upper", "lower", "alpha", "digit", "xdigit", "space", "print", "graph",
             "blank", "cntrl", "punct", "alnum"],
    lists:flatten([io_lib:format(" -D_IS~s=~b", [Name, mask(Endian, Bit)])
                  || {Bit, Name} <- lists:zip(lists:seq(0, 11), Names)]).

mask(big, Bit) -> 1 bsl Bit;
mask(little, Bit) when Bit < 8 -> 1 bsl (Bit + 8);
mask(little, Bit) -> 1 bsl (Bit - 8).

%% @doc Returns lines for sh that create a directory with only the kernel's headers.
%%
%% The second argument names that directory. It keeps out the headers of another C library,
%% which lie beside the kernel's.
-spec kernel_headers(whittle_target:target(), string()) -> [string()].
kernel_headers(#{kernel_headers := []}, _) ->
    [];
kernel_headers(#{kernel_headers := Directories}, To) ->
    ["mkdir " ++ To,
     "for headers in" ++ words(Directories) ++ "; do",
     "  [ -d \"$headers\" ] || { echo \"there is no $headers\"; exit 1; }",
     "  ln -s \"$headers\" " ++ To,
     "done"].

%% @doc Returns the flags of link-time optimization.
%%
%% The interpreter gets smaller when the linker sees all of it; the JIT's C++ does not. The flags
%% contain no number of jobs, because the VM shows the flags of its compilation.
-spec lto(size | speed) -> [string()].
lto(size) -> ["-flto"];
lto(speed) -> [].

%% @doc Joins words, with a space before each.
-spec words([string()]) -> string().
words(Words) ->
    lists:append([" " ++ W || W <- Words]).
