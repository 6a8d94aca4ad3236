%% @doc Checks whether a text can be the name of a file in an output.
%%
%% Names and versions of applications, releases and modules become parts of paths. A name with `/'
%% or `..' in it would lead out of the output directory. A name that begins with `-' looks like an
%% option to most programs. A name with a newline breaks lists that hold one file per line. A name
%% with a format character looks like another name. Readers check each name where they read it.
%% `whittle_pack' checks each path before it writes the file.
-module(whittle_file_name).

-export([check/1, check_path/1, check_paths/1, printable/1, printable_lines/1]).

%% The longest name in bytes that the file systems of Linux accept.
-define(LONGEST, 255).
%% The longest path in bytes that a program can open: Linux takes 4,095, and `/.whittle/' comes in
%% front of the path.
-define(LONGEST_PATH, 4085).

%% @doc Checks a name or a version. It must not be empty, must have at most 255 bytes in UTF-8,
%% must not contain `/', control characters or format characters, and must not begin with `-' or
%% `.'. The error is the rest of a sentence that begins with the name.
-spec check(atom() | binary() | string()) -> ok | {error, string()}.
check(Name) when is_atom(Name) -> check(atom_to_binary(Name));
check(Name) ->
    case unicode:characters_to_binary(Name) of
        Bytes when is_binary(Bytes) ->
            case {binary:match(Bytes, <<"/">>), Bytes} of
                {{_, _}, _} -> {error, "contains a /"};
                {nomatch, <<$-, _/binary>>} -> {error, "begins with -"};
                {nomatch, <<$., _/binary>>} -> {error, "begins with a dot"};
                {nomatch, <<>>} -> {error, "is empty"};
                {nomatch, _} -> check_part(Bytes)
            end;
        _ ->
            {error, "is not text"}
    end.

%% @doc Checks that a path stays below the directory where it begins. The path consists of names
%% with one `/' between them. No name is empty, `.' or `..', and none contains control or format
%% characters. A name may begin with `-' or `.'. The path has at most 4085 bytes.
-spec check_path(binary()) -> ok | {error, string()}.
check_path(Path) ->
    Checks = [check_part(Part) || Part <- binary:split(Path, <<"/">>, [global])],
    case [Error || {error, _} = Error <- Checks] of
        [] when byte_size(Path) =< ?LONGEST_PATH -> ok;
        [] -> {error, "is longer than 4085 bytes"};
        [Error | _] -> Error
    end.

%% @doc Checks that a file tree can have these paths. Each of them passes {@link check_path/1}, no
%% path occurs twice, and none is a directory of another. The error has the first wrong path, and
%% the rest of a sentence that begins with it.
-spec check_paths([binary()]) -> ok | {error, {binary(), Why :: string()}}.
check_paths(Paths) ->
    Sorted = lists:sort(Paths),
    Set = maps:from_keys(Sorted, []),
    Bad = [{Path, "occurs twice"} || Path <- Sorted -- maps:keys(Set)]
        ++ [{Path, Why} || Path <- Sorted, {error, Why} <- [check_path(Path)]]
        ++ [{Parent, "is a file and a directory"} || Path <- Sorted, Parent <- parents(Path),
                                                     is_map_key(Parent, Set)],
    case Bad of
        [] -> ok;
        [First | _] -> {error, First}
    end.

%% @doc Writes a text on one line. It replaces control and format characters with escapes such as
%% `\x{A}', and also bytes that are no UTF-8. It writes a term that is no text as Erlang does.
-spec printable(unicode:chardata()) -> unicode:chardata().
printable(Text) -> shown(Text, none).

%% @doc Writes a text of several lines. It escapes the characters that {@link printable/1} escapes,
%% except the ends of the lines.
-spec printable_lines(unicode:chardata()) -> unicode:chardata().
printable_lines(Text) -> shown(Text, $\n).

%% Internal

parents(Path) -> [binary:part(Path, 0, At) || {At, 1} <- binary:matches(Path, <<"/">>)].

%% Keeps one control character, or none.
shown(Text, Kept) ->
    try unicode:characters_to_list(Text) of
        Chars when is_list(Chars) -> escaped(Chars, Kept);
        {_, Chars, Rest} -> [escaped(Chars, Kept) | no_text(Rest, Kept)]
    catch
        error:badarg -> escaped(lists:flatten(io_lib:format("~0tp", [Text])), Kept)
    end.

escaped(Chars, Kept) ->
    [case Char =/= Kept andalso (is_control(Char) orelse is_format(Char)) of
         true -> escape(Char);
         false -> Char
     end || Char <- Chars].

escape(Number) -> io_lib:format("\\x{~.16B}", [Number]).

%% Escapes the first byte of the rest of a text, and continues after it.
no_text(<<Byte, Rest/binary>>, Kept) -> [escape(Byte) | shown(Rest, Kept)];
no_text([First | Rest], Kept) -> [no_text(First, Kept) | shown(Rest, Kept)];
no_text(Number, _) when is_integer(Number) -> escape(Number);
no_text(_, _) -> [].

check_part(<<>>) -> {error, "contains an empty name"};
check_part(<<".">>) -> {error, "contains the name ."};
check_part(<<"..">>) -> {error, "contains the name .."};
check_part(Bytes) when byte_size(Bytes) > ?LONGEST -> {error, "is longer than 255 bytes"};
check_part(Bytes) ->
    case unicode:characters_to_list(Bytes) of
        Chars when is_list(Chars) ->
            case {lists:any(fun is_control/1, Chars), lists:any(fun is_format/1, Chars)} of
                {true, _} -> {error, "contains a control character"};
                {false, true} -> {error, "contains an invisible format character"};
                {false, false} -> ok
            end;
        _ -> {error, "is not UTF-8"}
    end.

%% Some terminals and editors begin a new line at the Unicode line and paragraph separators.
is_control(Char) ->
    Char < 32 orelse (Char >= 127 andalso Char < 160) orelse Char =:= 16#2028
        orelse Char =:= 16#2029.

%% Recognizes the characters of the Unicode category Cf (Unicode 16). They are invisible, and some
%% reverse the direction of the text after them.
is_format(Char) when Char < 16#AD -> false;
is_format(Char) ->
    lists:any(fun({First, Last}) -> Char >= First andalso Char =< Last end,
              [{16#AD, 16#AD}, {16#600, 16#605}, {16#61C, 16#61C}, {16#6DD, 16#6DD},
               {16#70F, 16#70F}, {16#890, 16#891}, {16#8E2, 16#8E2}, {16#180E, 16#180E},
               {16#200B, 16#200F}, {16#202A, 16#202E}, {16#2060, 16#206F}, {16#FEFF, 16#FEFF},
               {16#FFF9, 16#FFFB}, {16#110BD, 16#110BD}, {16#110CD, 16#110CD},
               {16#13430, 16#1343F}, {16#1BCA0, 16#1BCA3}, {16#1D173, 16#1D17A},
               {16#E0001, 16#E0001}, {16#E0020, 16#E007F}]).
