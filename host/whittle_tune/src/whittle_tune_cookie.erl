%% @doc Finds and checks the cookie with which this VM connects to a node.
%%
%% The sources, their order and the checks are those of `PROGRAM --whittle-ping'
%% (native/launcher/distribution.c). This module also refuses characters beyond Latin-1, because a
%% cookie with one differs from the node's.
%%
%% OTP's own module `auth' would wait for the writer of a FIFO, print crash reports for a wrong
%% file, and write a file if there is none. So the script `whittle' turns `auth' off with
%% `-nocookie', and this module reads the files itself.
%% @hidden
-module(whittle_tune_cookie).

-include_lib("kernel/include/file.hrl").

-export([read/0, format_error/1]).

-export_type([error/0]).

-type error() :: no_cookie | {bad_cookie, Source :: string(), problem()}.

-type problem() :: {unreadable, file:posix() | badarg} | not_private | not_owned | empty
                 | too_long | control_character | flag | not_latin1 | not_ascii.

%% The longest cookie and the largest cookie file, in bytes.
-define(MOST_COOKIE, 255).
-define(MOST_FILE, 4096).

%% The rights of users other than the owner.
-define(OTHERS, 8#077).

%% @doc Returns the cookie of `RELEASE_COOKIE', `ERLANG_COOKIE', the file in `WHITTLE_COOKIE_FILE',
%% or the user's cookie file, in this order.
-spec read() -> {ok, atom()} | {error, error()}.
read() ->
    case [{Name, Value} || Name <- ["RELEASE_COOKIE", "ERLANG_COOKIE", "WHITTLE_COOKIE_FILE"],
                           Value <- [os:getenv(Name, "")], Value =/= ""] of
        [{"WHITTLE_COOKIE_FILE" = Name, File} | _] -> of_file(Name ++ ": " ++ File, File);
        [{Name, Cookie} | _] -> checked(Name, unicode:characters_to_binary(Cookie));
        [] -> of_home()
    end.

%% @doc Formats an error as one line for a person.
-spec format_error(error()) -> unicode:chardata().
format_error(no_cookie) ->
    "no cookie is set, so no connection to the node is possible: set RELEASE_COOKIE to the node's "
        "cookie, or WHITTLE_COOKIE_FILE to a file that holds it";
format_error({bad_cookie, Source, {unreadable, Reason}}) ->
    [Source, $\s, whittle_file:format_error(Reason),
     ": write the cookie alone into a regular file that you can read"];
format_error({bad_cookie, Source, Problem}) -> [Source, ": ", text(Problem)].

text(not_private) -> "other users can read or write the cookie file; run chmod 600 on it";
text(not_owned) -> "the cookie file belongs to another user; run chown on it";
text(empty) -> "the cookie is empty; write the cookie into the file";
text(too_long) -> "the cookie is longer than 255 bytes; choose a shorter one";
text(control_character) -> "the cookie contains a control character; choose another cookie";
text(flag) ->
    "a cookie cannot begin with -, because the VM reads such a word as a flag; choose another "
        "cookie";
text(not_latin1) ->
    "the cookie is not valid UTF-8, or has a character beyond Latin-1; choose a cookie of "
        "printable ASCII";
text(not_ascii) ->
    "the cookie has a character that the VM does not accept; write one line of printable ASCII".

%% Internal functions

of_file(Source, File) ->
    whittle_work:steps([fun(_) -> private_file(Source, File) end,
                        fun({Bytes, Owner}) -> owned(Source, Bytes, Owner) end,
                        fun(Bytes) -> checked(Source, whittle_trim:blanks(Bytes)) end]).

%% Reads a cookie file. Refuses it if other users have rights to it.
private_file(Source, File) ->
    whittle_work:steps([fun(_) -> readable(Source, whittle_file:whole(File, ?MOST_FILE)) end,
                        fun(Bytes) -> private(Source, Bytes, file:read_file_info(File)) end]).

readable(_, {ok, Bytes}) -> {ok, Bytes};
readable(Source, {error, Reason}) -> {error, {bad_cookie, Source, {unreadable, Reason}}}.

private(Source, _, {ok, #file_info{mode = Mode}}) when Mode band ?OTHERS =/= 0 ->
    {error, {bad_cookie, Source, not_private}};
private(_, Bytes, {ok, #file_info{uid = Owner}}) -> {ok, {Bytes, Owner}};
private(Source, _, {error, _} = Error) -> readable(Source, Error).

owned(_, Bytes, 0) -> {ok, Bytes};
owned(Source, Bytes, Owner) ->
    %% The files of a process in /proc belong to its effective user.
    case file:read_file_info("/proc/self") of
        {ok, #file_info{uid = Owner}} -> {ok, Bytes};
        _ -> {error, {bad_cookie, Source, not_owned}}
    end.

%% The places where `auth' looks.
of_home() ->
    Homes = [Home || Home <- [os:getenv("HOME", "")], Home =/= ""],
    Configs = [Dir || Dir <- [os:getenv("XDG_CONFIG_HOME", "")], Dir =/= ""]
        ++ [filename:join(Home, ".config") || Home <- Homes],
    first([filename:join(Home, ".erlang.cookie") || Home <- Homes]
          ++ [filename:join([Config, "erlang", ".erlang.cookie"])
              || Config <- lists:sublist(Configs, 1)]).

first([File | Files]) ->
    case private_file(File, File) of
        {error, {bad_cookie, _, {unreadable, enoent}}} -> first(Files);
        {error, {bad_cookie, _, {unreadable, eacces}}} -> {error, no_cookie};
        {ok, {Bytes, _}} -> ascii(File, Bytes);
        {error, _} = Error -> Error
    end;
first([]) -> {error, no_cookie}.

%% The cookie is the characters from space to ~, as in `auth'. Only line ends and spaces may follow.
ascii(File, Bytes) ->
    case re:run(Bytes, "^([ -~]*)[ \r\n]*$", [{capture, all_but_first, binary}, dollar_endonly]) of
        {match, [Cookie]} -> to_atom(File, Cookie);
        nomatch -> {error, {bad_cookie, File, not_ascii}}
    end.

checked(Source, <<"-", _/binary>>) -> {error, {bad_cookie, Source, flag}};
checked(Source, Cookie) when is_binary(Cookie) ->
    case re:run(Cookie, "[\\x00-\\x1f\\x7f]", [{capture, none}]) of
        match -> {error, {bad_cookie, Source, control_character}};
        nomatch -> to_atom(Source, Cookie)
    end;
checked(Source, _) -> {error, {bad_cookie, Source, not_latin1}}.

to_atom(Source, <<>>) -> {error, {bad_cookie, Source, empty}};
to_atom(Source, Cookie) when byte_size(Cookie) > ?MOST_COOKIE ->
    {error, {bad_cookie, Source, too_long}};
to_atom(Source, Cookie) ->
    %% A VM reads its command line as UTF-8 and keeps the cookie as Latin-1. So does this.
    case unicode:characters_to_binary(Cookie, unicode, latin1) of
        Characters when is_binary(Characters) -> {ok, binary_to_atom(Characters, latin1)};
        _ -> {error, {bad_cookie, Source, not_latin1}}
    end.
