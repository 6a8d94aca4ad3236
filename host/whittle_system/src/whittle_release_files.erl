%% @hidden Reads the files of a release outside of its applications, and the environment that its
%% start script sets.
-module(whittle_release_files).

-export([read/5]).

%% The limit in bytes for env.sh. Nobody writes a larger one by hand.
-define(MAX_SHELL, 1024 * 1024).

%% @doc Reads the files below `releases/VSN' that the running system needs, the environment, and
%% notes. It removes cookies, so that no system ever contains one.
-spec read(file:filename(), file:filename(), string(), string(), whittle_read_app:context()) ->
          {ok, {#{whittle_system:path() => whittle_system:file()},
                #{binary() => whittle_system:env_value()},
                [unicode:chardata()]}}
        | {error, whittle_system:error()}.
read(Dir, Place, Name, Vsn, Context) ->
    All = lists:keysort(1, whittle_read_app:tree(Place, Context)),
    Kept = [{Path, Mode, Read()} || {Path, Mode, Read} <- All, is_kept(Path)],
    Cookies = ["COOKIE" || {ok, _} <- [file:read_link_info(filename:join(Dir, "releases/COOKIE"))]]
        ++ [[filename:basename(Place), $/, Path] || {Path, _, _} <- All, is_cookie_file(Path)],
    CookieNotes = [whittle_vm_args:cookie_note(["releases/", File]) || File <- Cookies],
    Wrong = [{unreadable, {filename:join(Place, Path), Reason}}
             || {Path, _, {error, Reason}} <- Kept]
        ++ [{unreadable, {File, eisdir}}
            || Path <- ["sys.config", "sys.config.src", "vm.args", "vm.args.src"],
               File <- [filename:join(Place, Path)], filelib:is_dir(File)]
        ++ [{bad_config, {filename:join(Place, Path), Why}}
            || {Path, Bytes} <- configuration(Kept), {error, Why} <- [config(Bytes)]]
        ++ [{bad_config, {filename:join(Place, Path), "the launcher reads it only up to a zero "
                                                      "byte"}}
            || {<<"sys.config.src">> = Path, _, {ok, Bytes}} <- Kept,
               binary:match(Bytes, <<0>>) =/= nomatch]
        ++ [{bad_flags, {filename:join(Place, Path), "the default of a variable has a cookie, which"
                                                     " everybody could read in the output"}}
            || {Path, Bytes} <- flags(Kept), hides_cookie(Bytes)]
        ++ [{bad_flags, {filename:join(Place, Path), Why}}
            || {Path, Bytes} <- flags(Kept), {error, Why} <- [whittle_vm_args:check(Bytes)]],
    Env = filename:join(Place, "env.sh"),
    case {Wrong, whittle_file:whole(Env, ?MAX_SHELL)} of
        {[], {ok, Shell}} -> {ok, found(Kept, CookieNotes, Shell, {Dir, Place, Name, Vsn})};
        {[], {error, enoent}} -> {ok, found(Kept, CookieNotes, <<>>, {Dir, Place, Name, Vsn})};
        {[], {error, Reason}} -> {error, {unreadable, {Env, Reason}}};
        {[First | _], _} -> {error, First}
    end.

%% Internal

found(Kept, CookieNotes, Env, {Dir, Place, Name, Vsn}) ->
    {Files, Notes} = lists:mapfoldl(fun file/2, [], Kept),
    {Shell, ShellNotes} = shell_env(Env),
    Script = script_env(Place, Name, Vsn),
    {maps:from_list(Files),
     maps:merge(Script, Shell),
     CookieNotes
         ++ [[Path, ": ", Note] || {Path, Bytes} <- flags(Kept),
                                   {ok, Probable} <- [whittle_vm_args:check(Bytes)],
                                   Note <- Probable]
         ++ doubtful(Kept) ++ further(Kept) ++ lists:reverse(Notes) ++ ShellNotes
         ++ no_name(Script, Shell) ++ outside(Dir)}.

%% The start script of Mix gives the node a name.
no_name(#{<<"RELEASE_COMMAND">> := _, <<"RELEASE_NAME">> := {_, Name}}, Shell)
  when not is_map_key(<<"RELEASE_DISTRIBUTION">>, Shell) ->
    [["Mix's start script gives the node the name ", Name, ". The program has no name, unless you "
      "set RELEASE_NODE=", Name, " and RELEASE_DISTRIBUTION=sname at its start"]];
no_name(_, _) -> [].

%% Internal: files

%% Returns the configuration that each start reads. A sys.config.src replaces a sys.config. If it
%% has variables, it is a configuration only with their values, and this function leaves it out.
configuration(Kept) ->
    [{Path, Bytes} || {Path, Bytes} <- first([<<"sys.config.src">>, <<"sys.config">>], Kept),
                      Path =:= <<"sys.config">>
                          orelse whittle_template:with_defaults(Bytes, <<"0">>) =:= Bytes].

%% Checks that the kernel accepts the configuration: one list of application settings and names of
%% further files. The kernel joins several settings of one application in sys.config.
config(Bytes) ->
    case whittle_term:parse(Bytes) of
        {ok, [Config]} when length(Config) >= 0 ->
            Wrong = [Why || Item <- Config, Why <- wrong_item(Item)]
                ++ ["it is not UTF-8, and does not begin with `%% coding: latin-1'"
                    || not whittle_term:is_text(Bytes)],
            case Wrong of
                [] -> {ok, [Name || Name <- Config, is_list(Name)]};
                [Why | _] -> {error, Why}
            end;
        {ok, _} -> {error, "it is not one list that ends with a full stop"};
        {error, _} = Error -> Error
    end.

wrong_item({App, Settings}) when is_atom(App), length(Settings) >= 0 ->
    Keys = [Key || {Key, _} <- Settings, is_atom(Key)],
    [io_lib:format("in the settings of ~ts, ~0tP is not a pair whose key is an atom",
                   [App, Setting, 9])
     || Setting <- Settings, not is_setting(Setting)]
        ++ [io_lib:format("the settings of ~ts have the key ~ts twice", [App, Key])
            || Key <- lists:usort(Keys -- lists:usort(Keys))];
wrong_item(Item) ->
    [io_lib:format("~0tP is neither a pair of an application and its settings, nor the name of "
                   "a further file", [Item, 9])
     || not io_lib:char_list(Item)].

is_setting({Key, _}) -> is_atom(Key);
is_setting(_) -> false.

%% Tells whether the running system needs a file. It does not need shell scripts, boot files, and
%% files that are read elsewhere.
is_kept(<<"consolidated/", _/binary>>) -> false;
is_kept(Path) ->
    not lists:member(filename:extension(Path),
                     [<<".boot">>, <<".script">>, <<".rel">>, <<".bat">>, <<".sh">>])
        andalso not lists:member(Path, [<<"elixir">>, <<"iex">>, <<"remote.vm.args">>])
        andalso not is_cookie_file(Path).

is_cookie_file(Path) ->
    lists:member(filename:basename(Path), [<<"COOKIE">>, <<".erlang.cookie">>]).

file({Path, Mode, {ok, Bytes0}}, Notes) ->
    {Bytes, New} = content(Path, Bytes0),
    {{name(Path), #{mode => Mode, bytes => Bytes}}, New ++ Notes}.

%% Names a file. The launcher expands variables in both. The template comes later in order, so it
%% replaces a file that was generated from it on another machine.
name(<<"vm.args.src">>) -> <<"vm.args">>;
name(Path) -> Path.

content(<<"sys.config">>, Bytes) -> without_reboot(Bytes);
content(Path, Bytes) ->
    %% A program or vm.args can name a further file of flags, as prod.vm.args.
    case re:run(filename:basename(Path), "^vm\\.args|(^|\\.)args(\\.|$)", [{capture, none}]) of
        match ->
            case whittle_vm_args:without_cookie(Bytes) of
                {Rest, true} -> {Rest, [whittle_vm_args:cookie_note(Path)
                                        | unused(Path, Bytes, Rest)]};
                {_, false} -> {Bytes, []}
            end;
        nomatch -> {Bytes, []}
    end.

%% Names the variables that only a removed cookie had.
unused(Path, Before, After) ->
    [["the variable ", Name, " in ", Path, " has no effect"]
     || Name <- whittle_template:variables(Before) -- whittle_template:variables(After),
        not whittle_vm_args:is_cookie(Name)].

%% Tells whether there is a cookie only after the replacement of variables.
hides_cookie(Text) ->
    {Rest, _} = whittle_vm_args:without_cookie(Text),
    {_, Hidden} = whittle_vm_args:without_cookie(whittle_template:with_defaults(Rest, <<"0">>)),
    Hidden.

%% Returns the file of flags that each start reads. A template replaces the other one.
flags(Kept) -> first([<<"vm.args.src">>, <<"vm.args">>], Kept).

first(Names, Kept) ->
    lists:sublist([{Path, Bytes} || Name <- Names, {Path, _, {ok, Bytes}} <- Kept, Path =:= Name],
                  1).

%% A template may need its values to become a configuration. More often it has a mistake.
doubtful(Kept) ->
    [["sys.config.src is no valid configuration with its defaults, and with 0 for variables "
      "without one: ", Why, "; if it is none with their values either, the program does not start"]
     || {<<"sys.config.src">>, _, {ok, Bytes}} <- Kept,
        {error, Why} <- [config(whittle_template:with_defaults(Bytes, <<"0">>))]].

%% Names the files that a configuration names and that the release lacks. The kernel looks beside
%% sys.config first. It gets a template, in which the launcher replaces the variables, without its
%% directory.
further(Kept) ->
    Paths = [Path || {Path, _, _} <- Kept],
    Missing = [Name || {<<"sys.config">>, _, {ok, Bytes}} <- Kept, Name <- included(Bytes),
                       not lists:member(with_extension(Name), Paths)],
    OfTemplate = [Name || {<<"sys.config.src">>, _, {ok, Bytes}} <- Kept,
                          Name <- included(whittle_template:with_defaults(Bytes, <<"0">>))],
    [["sys.config names further files, which must exist when the program starts: ",
      lists:join(", ", Missing)] || Missing =/= []]
        ++ [["sys.config.src names further files, which must exist when the program starts, in its "
             "current directory unless they have an absolute path: ", lists:join(", ", OfTemplate)]
            || OfTemplate =/= []].

included(Bytes) ->
    case config(Bytes) of
        {ok, Names} -> Names;
        {error, _} -> []
    end.

%% The kernel adds the extension too.
with_extension(Name) ->
    unicode:characters_to_binary(filename:rootname(Name, ".config") ++ ".config").

%% Removes the restart from the configuration. Elixir can write the configuration that it read at
%% run time into a file and restart the node. Here it cannot write the file, and it can also
%% continue without a restart.
without_reboot(Bytes) ->
    case whittle_term:parse(Bytes) of
        {ok, [Config]} when length(Config) >= 0 ->
            case [{Elixir, Init}
                  || Elixir <- [proplists:get_value(elixir, Config)], length(Elixir) >= 0,
                     #{reboot_system_after_config := true} = Init
                         <- [proplists:get_value(config_provider_init, Elixir)]] of
                [{Elixir, Init}] ->
                    New = {config_provider_init, Init#{reboot_system_after_config := false}},
                    Now = lists:keystore(config_provider_init, 1, Elixir, New),
                    {whittle_term:to_text(lists:keystore(elixir, 1, Config, {elixir, Now})),
                     ["Whittle turned reboot_system_after_config off: the program "
                      "reads its configuration at start, without a restart"]};
                [] -> {Bytes, []}
            end;
        _ -> {Bytes, []}
    end.

outside(Dir) ->
    Known = ["bin", "lib", "releases", "tmp", "log"],
    Others = [Name || Name <- filelib:wildcard("*", Dir),
                      not lists:member(Name, Known), not lists:prefix("erts-", Name)],
    [["Whittle packs only lib and releases, and leaves out: ", lists:join(", ", Others)]
     || Others =/= []].

%% Internal: environment

%% Sets the variables that the start scripts of relx and of `mix release' set.
script_env(Place, Name, Vsn) ->
    Root = list_to_binary(whittle_boot:root()),
    [BinName, BinVsn] = [unicode:characters_to_binary(Text) || Text <- [Name, Vsn]],
    Common = #{<<"RELEASE_ROOT">> => {always, Root},
               <<"RELEASE_NAME">> => {default, BinName},
               <<"RELEASE_VSN">> => {default, BinVsn}},
    case filelib:is_regular(filename:join(Place, "elixir")) of
        true ->
            Common#{<<"RELEASE_SYS_CONFIG">> => {default, <<Root/binary, "/etc/sys">>},
                    <<"RELEASE_COMMAND">> => {default, <<"start">>},
                    <<"RELEASE_PROG">> => {default, BinName}};
        false ->
            Common#{<<"RELEASE_ROOT_DIR">> => {always, Root},
                    <<"REL_NAME">> => {default, BinName},
                    <<"REL_VSN">> => {default, BinVsn}}
    end.

%% Reads the plain assignments of env.sh that always run. All other lines need a shell. An
%% assignment counts if it or another line exports the variable, or if Mix's start script does.
shell_env(Text) ->
    Parsed = [case Kind of
                  always -> assignment(Line);
                  other -> unread(Line)
              end || {Kind, Line} <- whittle_shell_lines:split(Text)],
    Exported = maps:from_keys(lists:append([Names || {exports, Names} <- Parsed])
                              ++ [Key || {set, Key, _, _, exported, _} <- Parsed], []),
    Unread = [Line || {unread, Line} <- Parsed],
    Private = [Line || {set, Key, _, false, _, Line} <- Parsed, not is_exported(Key, Exported)],
    {maps:from_list([{Key, {always, Value}}
                     || {set, Key, Value, _, _, _} <- Parsed, is_exported(Key, Exported)]),
     [whittle_vm_args:cookie_note("env.sh") || lists:any(fun had_cookie/1, Parsed)]
     ++ [["env.sh: Whittle keeps only plain assignments of exported variables, and leaves out: ",
          lists:join("; ", [text(Line) || Line <- Unread ++ Private])]
         || Unread ++ Private =/= []]}.

is_exported(<<"RELEASE_", _/binary>>, _) -> true;
is_exported(Key, Exported) -> is_map_key(Key, Exported).

%% Converts a line to text. Values are bytes, and a note is text.
text(Line) ->
    case unicode:characters_to_list(Line) of
        Text when is_list(Text) -> Text;
        _ -> binary_to_list(Line)
    end.

%% A shell replaces an unquoted ~ at the beginning of a value, and after a colon.
assignment(Line) ->
    Pattern = "^(export\\s+)?([A-Za-z_][A-Za-z0-9_]*)="
        "(?:\"([^\"$`\\\\]*)\"|'([^']*)'|((?!~)(?:[^ \\t\"'$`\\\\;&|<>():]++|:(?!~))*+))$",
    Names = "^export((?:\\s+[A-Za-z_][A-Za-z0-9_]*)+)$",
    case re:run(Line, Pattern, [dollar_endonly, {capture, all_but_first, binary}]) of
        {match, [Export, Key | Groups]} ->
            Kind = case Export of <<>> -> private; _ -> exported end,
            without_cookie(Key, iolist_to_binary(Groups), Kind, Line);
        nomatch ->
            case re:run(Line, Names, [dollar_endonly, {capture, all_but_first, binary}]) of
                {match, [All]} -> {exports, re:split(whittle_trim:blanks(All), "\\s+")};
                nomatch -> unread(Line)
            end
    end.

%% A note must not contain a cookie.
unread(Line) ->
    case re:run(Line, "(?:RELEASE|ERLANG)_COOKIE=|-setcookie") of
        {match, _} -> cookie;
        nomatch -> {unread, Line}
    end.

%% Removes a cookie. The user passes one when the system starts.
without_cookie(<<"ERL_", _/binary>> = Key, Value, Kind, Line) ->
    {Rest, HadOne} = whittle_vm_args:without_cookie(Value),
    {set, Key, Rest, HadOne, Kind, Line};
without_cookie(Key, Value, Kind, Line) ->
    case whittle_vm_args:is_cookie(Key) of
        true -> cookie;
        false -> {set, Key, Value, false, Kind, Line}
    end.

had_cookie(cookie) -> true;
had_cookie({set, _, _, HadOne, _, _}) -> HadOne;
had_cookie(_) -> false.
