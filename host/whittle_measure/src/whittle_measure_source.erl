%% @doc Makes applications from modules of OTP's source, for example from a benchmark of OTP.
%%
%% The source is the one from which Whittle builds OTP: fetched, and compared with its checksums.
%% The application lies beside the samples. It calls one function and then ends the VM.
%% @hidden
-module(whittle_measure_source).

-import(whittle_measure_samples, [named/2]).

-export([check/1, complete/3, format_error/1]).

-export_type([spec/0, error/0]).

-type spec() :: #{otp := string(),              % the release of the source, "29"
                  files := [string()],          % paths in the source, each one module
                  defines := [string()],        % macros to define as true in each module
                  start := {module(), atom()}}. % the function to call, without arguments

-type error() :: {bad_source, string()}         % a release that Whittle does not know
               | {source, {Program :: atom(), whittle_runtime:reason()}}.

%% @doc Checks that Whittle knows the release of the source.
-spec check(whittle_measure_subject:build()) -> ok | {error, error()}.
check(#{program := #{otp_source := #{otp := Otp}}}) ->
    case lists:member(Otp, whittle_runtime:otps()) of
        true -> ok;
        false -> {error, {bad_source, Otp}}
    end.

%% @doc Adds the application as the input of a build whose program has a source.
-spec complete(whittle_measure_subject:build(), file:filename(),
               fun((whittle_make:event()) -> term())) ->
          {ok, whittle_measure_subject:build()}
        | {error, error() | whittle_measure_samples:error()}.
complete(#{program := #{name := Name, otp_source := Spec} = Program} = Build, Dir, Tell) ->
    App = filename:absname(filename:join([Dir, "programs", atom_to_list(Name)])),
    case written(Name, Spec, filename:join(App, "src"), Tell) of
        {ok, _} -> {ok, Build#{program := Program#{input => App}}};
        {error, _} = Error -> Error
    end;
complete(Build, _, _) -> {ok, Build}.

%% The file of the application is written last, so it says that all others are there.
written(Name, #{files := Files} = Spec, Src, Tell) ->
    AppFile = filename:join(Src, atom_to_list(Name) ++ ".app.src"),
    case filelib:is_regular(AppFile) of
        true -> {ok, AppFile};
        false ->
            whittle_work:steps(
              [fun(_) -> named(Src, filelib:ensure_path(Src)) end]
              ++ [fun(_) -> module(Name, File, Spec, Src, Tell) end || File <- Files]
              ++ [fun(_) -> write(filename:join(Src, main(Name) ++ ".erl"), start(Name, Spec)) end,
                  fun(_) -> write(AppFile, io_lib:format("~tp.~n", [description(Name)])) end,
                  fun(_) -> {ok, AppFile} end])
    end.

module(Name, File, #{otp := Otp, defines := Defines}, Src, Tell) ->
    Progress = #{progress => fun(Event) -> Tell({runtime, Event}) end},
    case whittle_runtime:source_file(Otp, File, Progress) of
        {ok, Bytes} ->
            write(filename:join(Src, filename:basename(File)),
                  [[["-define(", Define, ", true).\n"] || Define <- Defines],
                   "-file(\"", filename:basename(File), "\", 1).\n", Bytes]);
        {error, Reason} -> {error, {source, {Name, Reason}}}
    end.

main(Name) -> atom_to_list(Name) ++ "_main".

description(Name) ->
    {application, Name, [{description, "Modules of OTP's source"}, {vsn, "1"}, {registered, []},
                         {mod, {list_to_atom(main(Name)), []}}, {applications, [kernel, stdlib]}]}.

start(Name, #{start := {Module, Function}}) ->
    io_lib:format("-module('~ts').~n-behaviour(application).~n-export([start/2, stop/1]).~n"
                  "start(_, _) ->~n    {ok, spawn_link(fun() -> '~ts':'~ts'(), init:stop(), "
                  "receive after infinity -> ok end end)}.~nstop(_) -> ok.~n",
                  [main(Name), Module, Function]).

write(File, Text) -> named(File, file:write_file(File, Text)).

%% @doc Formats an error as one line for a person.
-spec format_error(error()) -> unicode:chardata().
format_error({bad_source, Otp}) ->
    ["Whittle knows no source of OTP ", Otp, "; it knows ",
     lists:join(", ", whittle_runtime:otps()), ": correct `otp' in the study"];
format_error({source, {Name, Reason}}) ->
    ["the program ", atom_to_list(Name), ": ", whittle_runtime:format_error(Reason)].
