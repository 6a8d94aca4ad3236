%% @hidden Collects the third-party components of a runtime and their license texts.
%%
%% Every copy of a program must carry these texts. `priv/components.config' lists the
%% components; the target's description adds its C library.
-module(whittle_components).

-export([collect/3, check/1, table/0]).

%% @doc Collects the components of a VM.
%%
%% It copies the license notices to `licenses/' in Out. It skips components and notices that a
%% release does not have. A component without any notice is an error.
%%
%% Trees holds the directories of the artifacts in the VM: `erts', `terminfo', `libc',
%% `crypto', `zstd', `soft_float' and `{native, N}'. Context has the flavor, the version of each
%% artifact, and the components that this VM does without.
-spec collect(#{erts := file:filename(),
                atom() | {native, pos_integer()} => file:filename()},
              #{flavor := size | speed, target := whittle_target:target(),
                versions := #{atom() => string()}, lacks := [string()]},
              file:filename()) ->
          {ok, [whittle_runtime:component()]} | {error, whittle_runtime:reason()}.
collect(Trees, Context = #{target := #{libraries := Libraries}, lacks := Lacks}, Out) ->
    try
        written(filelib:ensure_path(filename:join(Out, "licenses")), Out),
        Found = [component(Name, Facts, Tree, Part, Context, Out)
                 || {Name, Where, Facts} <- table(), not lists:member(Name, Lacks),
                    {Part, Tree} <- tree(Where, Trees, Context)],
        Components = Found ++ [library(L, Out) || L <- Libraries],
        case [Name || #{name := Name, notices := []} <- Components] of
            [] -> {ok, Components};
            [Name | _] -> {error, {no_notice, #{component => Name}}}
        end
    catch
        throw:{?MODULE, Error} -> {error, Error}
    end.

%% @doc Checks that this machine has the notices of the libraries that the compiler links in.
%%
%% A build calls it before the long work. The other notices come with the sources.
-spec check(whittle_target:target()) -> ok | {error, whittle_runtime:reason()}.
check(#{libraries := Libraries}) ->
    case [Name || #{name := Name, notices := Notices} <- Libraries, present(Notices) =:= []] of
        [] -> ok;
        [Name | _] -> {error, {no_notice, #{component => Name}}}
    end.

%% @doc Reads the table of components from `priv/components.config'.
-spec table() -> [{string(), term(), map()}].
table() ->
    File = filename:join(code:priv_dir(whittle_runtime), "components.config"),
    {ok, Table} = file:consult(File),
    Table.

%% Returns the artifact's directory for a component, or [] if the VM does not contain it.
tree({erts, Path}, #{erts := Tree}, _) ->
    [{erts, Tree} || filelib:is_file(filename:join(Tree, Path))];
tree({jit, _}, #{erts := Tree}, #{flavor := Flavor}) ->
    [{erts, Tree} || Flavor =:= speed];
tree({native, Native}, Trees, _) ->
    [{Native, Tree} || #{Native := Tree} <- [Trees]];
tree(zstd, Trees, _) ->
    [{zstd, Tree} || #{zstd := Tree} <- [Trees]].

component(Name, Facts, Tree, Part, #{versions := Versions}, Out) ->
    #{license := License, copyright := Copyright, homepage := Homepage,
      version := Version, notices := Notices} = Facts,
    Kept = [keep(Name, Notice, Tree, Out)
            || Notice = {_, Path} <- Notices,
               filelib:is_regular(filename:join(Tree, Path))],
    #{name => Name, license => License, copyright => Copyright,
      homepage => Homepage, notices => Kept,
      version => version(Version, Tree, maps:get(Part, Versions, ""))}.

%% `source' and `otp' stand for the version of the source archive.
version(Origin, _Tree, Vsn) when Origin =:= otp; Origin =:= source ->
    Vsn;
version({Path, Pattern}, Tree, _Vsn) ->
    {ok, Text} = file:read_file(filename:join(Tree, Path)),
    {match, Numbers} = re:run(Text, Pattern, [multiline, {capture, all_but_first, list}]),
    string:join(Numbers, ".").

keep(Name, {Kind, Path}, Tree, Out) ->
    {ok, Text} = file:read_file(filename:join(Tree, Path)),
    Notice = case Kind of
                 file -> Text;
                 comment -> comment(Text)
             end,
    write(Name, filename:basename(Path), Notice, Out).

write(Name, Base, Notice, Out) ->
    Relative = filename:join("licenses", Name ++ "-" ++ Base),
    written(file:write_file(filename:join(Out, Relative), Notice), Out),
    Relative.

written(ok, _Out) -> ok;
written({error, Reason}, Out) -> throw({?MODULE, whittle_cache_dir:unwritten(Reason, Out)}).

%% Returns the comment at the beginning of C source, unchanged.
comment(<<"/*", _/binary>> = Text) ->
    [Comment | _] = binary:split(Text, <<"*/">>),
    <<Comment/binary, "*/\n">>;
comment(Text) ->
    Lines = binary:split(Text, <<"\n">>, [global]),
    Head = lists:takewhile(fun(<<"//", _/binary>>) -> true; (_) -> false end, Lines),
    iolist_to_binary([[L, "\n"] || L <- Head]).

%% Describes a library that the compiler links in.
library(Library, Out) ->
    #{name := Name, license := License, copyright := Copyright,
      homepage := Homepage, version := Command, notices := Notices} = Library,
    {ok, Version} = whittle_program:capture("sh", ["-c", Command]),
    Kept = [begin
                {ok, Text} = file:read_file(Path),
                write(Name, filename:basename(Path), Text, Out)
            end || Path <- present(Notices)],
    #{name => Name, license => License, copyright => Copyright,
      homepage => Homepage, notices => Kept, version => string:trim(Version)}.

%% Returns the notices that this machine has.
present(Notices) ->
    [Path || Notice <- Notices,
             Print <- ["printf %s \"" ++ Notice ++ "\""],
             {ok, Path} <- [whittle_program:capture("sh", ["-c", Print])],
             filelib:is_regular(Path)].
