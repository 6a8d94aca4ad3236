%% @doc Packs the settings of the VM that `whittle tune' wrote: it adds their flags to the program's
%% vm.args, and their variables to its environment.
%% @hidden
-module(whittle_make_settings).

-export([read/1, add/2, format_error/1]).

-export_type([settings/0, error/0]).

-type settings() :: #{flags := [string()], environment := [{string(), string()}]}.

-type error() :: {bad_settings, {file:filename(), unicode:chardata()}}
               | {unreadable, {settings, file:filename(), file:posix() | badarg}}.

%% @doc Reads a file of settings: one map with the keys `flags' and `environment', and any others.
-spec read(file:filename()) -> {ok, settings()} | {error, error()}.
read(File) ->
    case whittle_file:text(File) of
        {ok, Bytes} -> checked(File, whittle_term:parse(Bytes));
        {error, Reason} when is_atom(Reason) -> {error, {unreadable, {settings, File, Reason}}};
        {error, Line} -> {error, {bad_settings, {File, Line}}}
    end.

checked(File, {ok, [#{flags := Flags, environment := Environment}]})
  when is_list(Flags), is_list(Environment) ->
    Wrong = [Flag || Flag <- Flags, not is_flag(Flag)]
        ++ [Pair || Pair <- Environment, not is_variable(Pair)],
    case Wrong of
        [] -> {ok, #{flags => Flags, environment => Environment}};
        [First | _] ->
            {error, {bad_settings,
                     {File,
                      io_lib:format("~0tP is neither a flag of the emulator (+P) or its value, nor "
                                    "a variable of the VM", [First, 8])}}}
    end;
checked(File, {ok, _}) ->
    {error, {bad_settings, {File, "it must hold one map with the keys flags and environment"}}};
checked(File, {error, Line}) -> {error, {bad_settings, {File, Line}}}.

%% A flag with `-' is for init or the program: it could set a cookie, or end the list of flags.
is_flag(Word) -> is_word(Word) andalso hd(Word) =/= $-.

%% A word of vm.args ends at a blank, and `#' begins a comment.
is_word(Word) ->
    is_list(Word) andalso Word =/= []
        andalso lists:all(fun(Char) -> is_integer(Char) andalso Char > $\s andalso Char < 127
                                           andalso not lists:member(Char, "#'\"\\$")
                          end, Word).

%% The cookie would be readable in the output, and other variables are not settings of the VM.
is_variable({Name, Value}) ->
    is_word(Name) andalso is_word(Value)
        andalso re:run(Name, "^(ERL|ESCRIPT)_[A-Z0-9_]+$", [{capture, none}]) =:= match;
is_variable(_) -> false.

%% @doc Adds the settings to a system. They stand behind the emulator's flags of the program, so
%% they win, and before `-extra', which ends the flags.
-spec add(settings(), whittle_system:system()) -> whittle_system:system().
add(#{flags := Flags, environment := Environment}, System) ->
    #{bytes := Before} = File = maps:get(<<"vm.args">>, whittle_system:files(System),
                                         #{mode => 8#644, bytes => <<>>}),
    Line = whittle_vm_args:add(["\n", lists:join($\s, Flags), "\n"], Before),
    With = case Flags of
               [] -> System;
               _ -> whittle_system:put_file(<<"vm.args">>, File#{bytes := Line}, System)
           end,
    lists:foldl(fun({Name, Value}, Each) ->
                        whittle_system:put_env(list_to_binary(Name),
                                               {default, list_to_binary(Value)}, Each)
                end, With, Environment).

%% @doc Formats an error as one line for a person.
-spec format_error(error()) -> unicode:chardata().
format_error({unreadable, {settings, File, Reason}}) ->
    [File, " cannot be read (", file:format_error(Reason), "): name a file of `whittle tune' with "
     "--settings"];
format_error({bad_settings, {File, Line}}) ->
    [File, ": ", Line, ": name a file of `whittle tune' with --settings"].
