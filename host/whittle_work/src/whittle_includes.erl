%% @doc Checks the files that Erlang source tells its compiler to read.
%%
%% The compiler opens each file that an attribute `-include', `-include_lib', `-doc' or `-moduledoc'
%% names, wherever it lies. It would wait forever for a pipe, and read a device forever.
-module(whittle_includes).

-include_lib("kernel/include/file.hrl").

-export([check/3, format_error/1]).

-export_type([reason/0]).

%% Why a compiler cannot or must not read a file. `long_attribute' names the line of an attribute of
%% more than 8,192 bytes that may name a file.
-type reason() :: file:posix() | badarg | {long_attribute, Line :: pos_integer()}
                | whittle_bounded:too_many().

%% The largest source in bytes.
-define(MOST, 10_000_000).

%% The check reads so many bytes of an attribute, from its name on. A path has at most 4,096.
-define(LONGEST, 8192).

%% White space of Erlang source in UTF-8 or Latin-1, apart from the end of a line
-define(WHITE, "\\x00-\\x09\\x0B-\\x20\\x80-\\xA0\\xC2").

%% @doc Checks the files that a source and its includes name. The compiler searches the given
%% directories after that of the source. `Apps' has the directories of applications for
%% `-include_lib'. The error is that of {@link whittle_file:check/1}, `efbig' for a source of more
%% than 10 MB, or a reason why the check cannot read an attribute. The check passes over files that
%% do not exist, because the compiler reports them.
-spec check(file:filename(), Dirs :: [file:filename()], Apps :: #{string() => file:filename()}) ->
          ok | {error, {file:filename(), reason()}}.
check(File, Dirs, Apps) ->
    try
        _ = source(File, {[filename:dirname(File) | Dirs], Apps}, #{}),
        ok
    catch
        throw:{?MODULE, Error} -> {error, Error}
    end.

%% @doc Formats a reason as the rest of a sentence that begins with the file's name. The line ends
%% with the next thing to do.
-spec format_error(reason()) -> unicode:chardata().
format_error({long_attribute, Line}) ->
    io_lib:format("has an attribute of more than ~ts bytes that may name a file, in line ~b: "
                  "remove comments and white space from it",
                  [whittle_number:text(?LONGEST), Line]);
format_error({too_many_atoms, Limit}) -> whittle_bounded:too_many_atoms(Limit);
format_error(efbig) ->
    io_lib:format("has more than ~ts bytes: divide it", [whittle_number:text(?MOST)]);
format_error(eftype) -> [whittle_file:format_error(eftype), ": put a regular file there"];
format_error(eisdir) -> [whittle_file:format_error(eisdir), ": put a file there"];
format_error(enomem) ->
    [whittle_file:format_error(enomem), ": use a machine with more memory"];
format_error(Reason) ->
    [whittle_file:format_error(Reason), ": check its name and its permissions"].

%% Internal

%% Reads each file only once, because it may include itself.
source(File, Where, Seen) ->
    case file:read_file_info(File) of
        {ok, #file_info{major_device = Device, inode = Inode}}
          when not is_map_key({Device, Inode}, Seen) ->
            case whittle_file:whole(File, ?MOST) of
                {ok, Text} ->
                    lists:foldl(fun(Named, Before) -> named(Named, File, Where, Before) end,
                                Seen#{{Device, Inode} => []}, attributes(File, Text));
                {error, Reason} when Reason =:= eftype; Reason =:= efbig ->
                    throw({?MODULE, {File, Reason}});
                {error, _} -> Seen
            end;
        _ -> Seen
    end.

named({Kind, Name}, File, {Dirs, Apps} = Where, Seen) ->
    Own = filename:dirname(File),
    Searched = case Kind of
                   doc -> [Own];
                   _ -> [Own | Dirs]
               end,
    Library = case filename:split(Name) of
                  [App | Path] when Kind =:= include_lib, Path =/= [], is_map_key(App, Apps) ->
                      [filename:join([map_get(App, Apps) | Path])];
                  _ -> []
              end,
    %% The compiler opens the first path that exists.
    Paths = [filename:join(Dir, Name) || Dir <- Searched] ++ Library,
    case [Path || Path <- Paths, {ok, _} <- [file:read_file_info(Path)]] of
        [First | _] -> source(First, Where, Seen);
        [] -> Seen
    end.

-dialyzer({no_return, attributes/2}).           % the fun that throws
%% Finds the attributes without reading the whole text into tokens.
attributes(File, Text) ->
    case attribute_places(Text) of
        {match, Found} ->
            [Named || [{At, _}] <- Found,
                      Named <- attribute(binary:part(Text, At, min(?LONGEST, byte_size(Text) - At)),
                                         fun(Reason) -> refuse(File, Text, At, Reason) end)];
        nomatch -> []
    end.

%% Finds the names of attributes. A name follows the hyphen or a comment; behind a comment it is the
%% first word of its line. The pattern reads no comment, so the time is linear. Some of these names
%% belong to no attribute, because nobody looks for the hyphen before the comment.
attribute_places(Text) ->
    re:run(Text, "(?m)(?:-[\\n" ?WHITE "]*+|^[" ?WHITE "]*+)"
           "('?(?:include|include_lib|doc|moduledoc)\\b)",
           [global, {capture, [1], index}]).

attribute(Text, Refuse) ->
    _ = [Refuse(Reason) || {error, Reason} <- [whittle_bounded:check_text(Text)]],
    case erl_scan:tokens([], "-" ++ characters(Text) ++ "\n", 1) of
        {done, {ok, [{'-', _}, {atom, _, Kind} | Tokens], _}, _} ->
            path(Kind, [element(1, Token) || Token <- Tokens, element(1, Token) =/= string],
                 lists:append([Part || {string, _, Part} <- Tokens]));
        {more, _} when byte_size(Text) =:= ?LONGEST ->
            begins_path(Text) andalso Refuse(long_attribute),
            [];
        _ -> []
    end.

-spec refuse(file:filename(), binary(), non_neg_integer(), long_attribute | reason()) ->
          no_return().
refuse(File, Text, At, long_attribute) ->
    Line = 1 + length(binary:matches(binary:part(Text, 0, At), <<"\n">>)),
    throw({?MODULE, {File, {long_attribute, Line}}});
refuse(File, _, _, Reason) -> throw({?MODULE, {File, Reason}}).

%% Tells whether the beginning of a long attribute may name a file. Most long attributes are a text
%% behind `-doc', and other long texts only look like an attribute.
begins_path(Text) ->
    White = "(?:[\\n" ?WHITE "]++|%.*+(?:\\n|\\z))*+",
    re:run(Text, ["\\A'?(?:include(?:_lib)?'?", White, "(?:\\z|\\(", White, "(?:\\z|\"))",
                  "|(?:module)?doc'?", White, "(?:\\z|\\(?", White, "(?:\\z|\\{)))"],
           [{capture, none}]) =:= match.

%% Strings that follow each other are one string.
path(Kind, ['(', ')', dot], [_ | _] = Name) when Kind =:= include; Kind =:= include_lib ->
    [{Kind, expanded(Name)}];
path(Kind, Shape, [_ | _] = Name) when Kind =:= doc; Kind =:= moduledoc ->
    [{doc, Name} || lists:member(Shape, [['(', '{', atom, ',', '}', ')', dot],
                                         ['{', atom, ',', '}', dot]])];
path(_, _, _) -> [].

%% Replaces a variable of the environment at the beginning of a path, as epp does.
expanded([$$ | _] = Name) ->
    [[$$ | Variable] | Rest] = filename:split(Name),
    case os:getenv(Variable) of
        false -> Name;
        Value -> filename:join([Value | Rest])
    end;
expanded(Name) -> Name.

characters(Text) ->
    case unicode:characters_to_list(Text) of
        Characters when is_list(Characters) -> Characters;
        {incomplete, Characters, _} -> Characters;
        {error, _, _} -> binary_to_list(Text)
    end.
