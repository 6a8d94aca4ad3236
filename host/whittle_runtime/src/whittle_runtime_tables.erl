%% @hidden Reads and rewrites the tables by which ERTS finds its own parts.
%%
%% The tables are C text that ERTS's build generates: the BIFs (`erl_bif_table.c'), the linked
%% drivers and NIFs (`driver_tab.c'), and the modules that are built in (`preload.c'). If a table
%% does not name a part, nothing else refers to it, and the linker leaves its code out. This
%% module is pure.
-module(whittle_runtime_tables).

-export([bifs/1, named/2, kept/3, bif_table/3, has_regexps/1, driver_table/2,
         has_library/2]).
-export([preload/2, preloaded/1]).

-export_type([texts/0, bif/0, named/0]).

-type texts() ::
        #{table := binary(),            % erl_bif_table.c
          header := binary(),           % erl_atom_table.h
          atoms := binary()}.           % erl_atom_table.c

-type bif() ::
        #{name := mfa(),
          guard := boolean(),           % instructions call it without its name
          code := [binary()],           % the names of its functions in C
          row := binary()}.             % its line

%% The C code's own uses of BIFs and functions.
-type named() ::
        #{always := [mfa()],            % BIFs that code outside of BIFs names
          with := #{mfa() => [mfa()]},  % BIFs in which a BIF continues
          called := [mfa()]}.           % functions and BIFs that the C code looks up by name

%% A row whose module is `_' installs its BIF under a name that no program calls.
-define(NOBODY, "am_Underscore").

%% @doc Reads the table of BIFs, in its order.
-spec bifs(texts()) -> [bif()].
bifs(#{table := Table} = Texts) ->
    Names = names(Texts),
    [#{name => {name(M, Names), name(F, Names), binary_to_integer(A)},
       guard => Kind =:= <<"BIF_KIND_GUARD">>, code => lists:usort([One, Other]), row => Row}
     || Row <- lines(Table),
        {match, [M, F, A, One, Other, Kind]} <-
            [re:run(Row, "^ *\\{(am_\\w+), (am_\\w+), (\\d+), (\\w+), (\\w+), (BIF_KIND_\\w+)\\},$",
                    [{capture, all_but_first, binary}])]].

%% @doc Finds the uses of BIFs in the C code. Each source is a file's name with its text.
%%
%% A BIF that takes long continues in a BIF, often in itself, by an index such as `BIF_phash2_1'.
%% Without that BIF in the table it would fail in the middle. If the index stands in a function
%% that is no BIF, or in a file of instructions, the BIF always stays.
-spec named([{file:filename(), binary()}], texts()) -> named().
named(Sources, Texts) ->
    Bifs = bifs(Texts),
    Names = names(Texts),
    Indexes = maps:from_list([{<<"BIF_", Code/binary>>, Name}
                              || #{name := Name, code := Codes} <- Bifs, Code <- Codes]),
    Code = maps:from_list([{One, Name} || #{name := Name, code := Codes} <- Bifs, One <- Codes]),
    Uses = lists:append([uses(filename:extension(File) =:= ".c", without_comments(Text))
                         || {File, Text} <- Sources,
                            binary:match(Text, <<"BIF_">>) =/= nomatch]),
    Found = [{maps:get(In, Code, none), maps:get(Index, Indexes)}
             || {In, Index} <- Uses, is_map_key(Index, Indexes)],
    #{always => lists:usort([Bif || {none, Bif} <- Found]),
      with => maps:map(fun(_, To) -> lists:usort(To) end,
                       maps:groups_from_list(fun({In, _}) -> In end, fun({_, Bif}) -> Bif end,
                                             [Use || {In, _} = Use <- Found, In =/= none])),
      called => lists:usort([{name(M, Names), name(F, Names), binary_to_integer(A)}
                             || {_, Text} <- Sources, [M, F, A] <- looked_up(Text),
                                is_map_key(M, Names), is_map_key(F, Names)])}.

%% @doc Returns the BIFs that must stay if the program cannot call those in `Removed'.
-spec kept([bif()], named(), Removed :: #{mfa() => _}) -> #{mfa() => []}.
kept(Bifs, #{always := Always, with := With, called := Called}, Removed) ->
    Names = [Name || #{name := Name} <- Bifs],
    First = [Name || #{name := Name, guard := Guard} <- Bifs,
                     Guard orelse not is_map_key(Name, Removed)]
        ++ Always ++ [Name || Name <- Called, lists:member(Name, Names)],
    closed(First, With, #{}).

closed([Name | Names], With, Kept) when is_map_key(Name, Kept) -> closed(Names, With, Kept);
closed([Name | Names], With, Kept) ->
    closed(maps:get(Name, With, []) ++ Names, With, Kept#{Name => []});
closed([], _, Kept) -> Kept.

%% @doc Writes the table of BIFs with only the kept ones. The other rows stay, because the C code
%% knows a BIF by the number of its row. They get another name and one common function.
-spec bif_table(binary(), [bif()], Kept :: #{mfa() => _}) -> iodata().
bif_table(Table, Bifs, Kept) ->
    Gone = maps:from_list([{Row, Name} || #{name := Name, row := Row} <- Bifs,
                                          not is_map_key(Name, Kept)]),
    [case Gone of
         #{Line := _} -> [removed(Line), $\n];
         #{} when Line =:= <<"BifEntry bif_table[] = {">> -> [stub(), Line, $\n];
         #{} -> [Line, $\n]
     end || Line <- lines(Table)]
        ++ [without_regexps() || not has_regexps(Kept)].

%% @doc Tells whether a VM with these BIFs contains PCRE (`erl_bif_re.c').
-spec has_regexps(Kept :: #{mfa() => _}) -> boolean().
has_regexps(Kept) -> lists:any(fun({M, _, _}) -> M =:= re end, maps:keys(Kept)).

%% ERTS calls these functions of erl_bif_re.c in any case.
without_regexps() ->
    "void erts_init_bif_re(void) {}\n"
        "Sint erts_re_set_loop_limit(Sint limit) { return limit; }\n".

removed(Row) ->
    re:replace(Row, "\\{am_\\w+, (am_\\w+, \\d+), .*\\},$",
               "{" ?NOBODY ", \\1, whittle_removed, whittle_removed, BIF_KIND_REGULAR},").

stub() ->
    "#include \"error.h\"\n\n"
        "static BIF_RETTYPE whittle_removed(Process *p, Eterm *args, ErtsCodePtr i)\n"
        "{\n    BIF_ERROR(p, EXC_UNDEF);\n}\n\n".

%% @doc Writes the table of drivers and NIFs without these libraries, which are names such as
%% `zlib' and `inet'.
-spec driver_table(binary(), [string()]) -> iodata().
driver_table(Table, Libraries) ->
    Names = [list_to_binary(Library ++ End) || Library <- Libraries,
                                               End <- ["_nif_init", "_driver_entry"]],
    [[Line, $\n] || Line <- lines(Table),
                    case re:run(Line, "(\\w+(_nif_init|_driver_entry))\\b",
                                [{capture, [1], binary}]) of
                        {match, [Name]} -> not lists:member(Name, Names);
                        nomatch -> true
                    end].

%% @doc Tells whether a table of drivers and NIFs has a library.
-spec has_library(string(), binary()) -> boolean().
has_library(Library, Table) ->
    re:run(Table, "\\b" ++ Library ++ "_(nif_init|driver_entry)\\b", [{capture, none}]) =:= match.

%% @doc Lists the modules of a table of built-in modules, in its order.
-spec preloaded(binary()) -> [module()].
preloaded(Table) ->
    {match, Names} = re:run(Table, "^ +\\{\"(\\w+)\", \\d+,",
                            [global, multiline, {capture, all_but_first, binary}]),
    [binary_to_atom(Name) || [Name] <- Names].

%% @doc Writes the table of built-in modules, and the bytes of all modules one after the other,
%% which the table includes as the file `preloaded'. The modules have the order of the old table.
-spec preload(binary(), #{module() => binary()}) -> {Table :: iodata(), Bytes :: binary()}.
preload(Old, Modules) ->
    Here = [{Name, Bytes} || Name <- preloaded(Old), #{Name := Bytes} <- [Modules]],
    {Rows, _} = lists:mapfoldl(
                  fun({Name, Bytes}, At) ->
                          Size = byte_size(Bytes),
                          {io_lib:format("  {\"~s\", ~b, whittle_preloaded + ~b},\n",
                                         [Name, Size, At]), At + Size}
                  end, 0, Here),
    {["__asm__(\".section .rodata.whittle_preloaded,\\\"a\\\"\\n\"\n"
      "        \".globl whittle_preloaded\\n\"\n"
      "        \"whittle_preloaded: .incbin \\\"preloaded\\\"\\n\"\n"
      "        \".byte 0\\n.previous\\n\");\n"
      "extern const unsigned char whittle_preloaded[];\n"
      "const struct {\n  char *name;\n  int size;\n  const unsigned char *code;\n"
      "} pre_loaded[] = {\n", Rows, "  {0, 0, 0}\n};\n"],
     iolist_to_binary([Bytes || {_, Bytes} <- Here])}.

%% Internal

%% The atoms of ERTS's C code, by their names there.
names(#{header := Header, atoms := Source}) ->
    {match, Texts} = re:run(Source, "^  \"((?:[^\"\\\\]|\\\\.)*)\",$",
                            [global, multiline, {capture, all_but_first, binary}]),
    Numbered = list_to_tuple([Text || [Text] <- Texts]),
    {match, Defined} = re:run(Header, "^#define (am_\\w+) make_atom\\((\\d+)\\)$",
                              [global, multiline, {capture, all_but_first, binary}]),
    maps:from_list([{Am, element(binary_to_integer(Number) + 1, Numbered)}
                    || [Am, Number] <- Defined]).

%% C escapes only quotes and backslashes in these names.
name(Am, Names) ->
    #{Am := Text} = Names,
    binary_to_atom(iolist_to_binary(re:replace(Text, "\\\\(.)", "\\1", [global]))).

lines(Text) -> binary:split(Text, <<"\n">>, [global]).

without_comments(Text) ->
    re:replace(Text, "/\\*.*?\\*/", "", [global, dotall, {return, binary}]).

%% Returns the indexes of BIFs in a text, each with the C function around it.
uses(IsC, Text) -> uses(lines(Text), IsC, none, []).

uses([<<"}", _/binary>> | Lines], IsC, _, Found) -> uses(Lines, IsC, none, Found);
uses([Line | Lines], IsC, In, Found) ->
    Now = case IsC andalso re:run(Line, "^[A-Za-z_][\\w\\s*]*?(\\w+)\\s*\\(",
                                  [{capture, [1], binary}]) of
              {match, [Function]} -> Function;
              _ -> In
          end,
    Here = case binary:match(Line, <<"BIF_">>) of
               nomatch -> [];
               _ ->
                   case re:run(Line, "\\bBIF_\\w+", [global, {capture, first, binary}]) of
                       {match, Indexes} -> [{Now, Index} || [Index] <- Indexes];
                       nomatch -> []
                   end
           end,
    uses(Lines, IsC, Now, Here ++ Found);
uses([], _, _, Found) -> Found.

looked_up(Text) ->
    case re:run(Text, "erts_export_put\\(\\s*(am_\\w+)\\s*,\\s*(am_\\w+)\\s*,\\s*(\\d+)\\s*\\)",
                [global, {capture, all_but_first, binary}]) of
        {match, All} -> All;
        nomatch -> []
    end.
