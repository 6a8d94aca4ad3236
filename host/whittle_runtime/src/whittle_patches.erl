%% @hidden Reads which patches belong to a release of OTP's source, and tries them on a source.
%%
%% `native/patches/series' lists the patches and their releases. A release that no line names gets
%% the patches of the nearest older release that a line names: nobody has ported them yet, and most
%% of them apply.
-module(whittle_patches).

-export([for/2, unfit/3]).
%% Pure functions, exported for tests
-export([parse/1, nearest/2, hunks/1]).

-export_type([misfit/0]).

%% A place of the source to which a patch does not apply.
-type misfit() :: #{patch := string(), file := string(), why := string()}.

%% @doc Lists the patches for a release, in order.
%%
%% Each entry is a file name in Dir and the SHA-256 of the file. The error `bad_series' names
%% the line that has the wrong form.
-spec for(file:filename(), string()) ->
          {ok, [{string(), whittle_source:digest()}]} | {error, whittle_runtime:reason()}.
for(Dir, Release) ->
    File = filename:join(Dir, "series"),
    case file:read_file(File) of
        {ok, Text} ->
            case parse(binary_to_list(Text)) of
                {ok, Series} ->
                    Like = nearest(Release, [R || {_, Rs} <- Series, R <- Rs]),
                    digests([P || {P, Rs} <- Series, lists:member(Like, Rs)], Dir, []);
                {error, Line} ->
                    {error, {bad_series, #{file => File, line => Line}}}
            end;
        {error, Reason} ->
            {error, {no_native, #{file => File, reason => Reason}}}
    end.

digests([], _Dir, Acc) ->
    {ok, lists:reverse(Acc)};
digests([Patch | Patches], Dir, Acc) ->
    File = filename:join(Dir, Patch),
    case whittle_digest:file(File) of
        {ok, Digest} -> digests(Patches, Dir, [{Patch, Digest} | Acc]);
        {error, Reason} -> {error, {no_native, #{file => File, reason => Reason}}}
    end.

%% @doc Reads the text of a series file. The error is the number of the bad line.
-spec parse(string()) -> {ok, [{string(), [string()]}]} | {error, pos_integer()}.
parse(Text) ->
    parse(string:split(Text, "\n", all), 1, []).

parse([], _, Acc) ->
    {ok, lists:reverse(Acc)};
parse([Line | Lines], Number, Acc) ->
    case string:lexemes(Line, " \t\r") of
        [] -> parse(Lines, Number + 1, Acc);
        ["#" ++ _ | _] -> parse(Lines, Number + 1, Acc);
        [Patch, List] ->
            Releases = string:lexemes(List, ","),
            case lists:all(fun is_release/1, Releases) of
                true -> parse(Lines, Number + 1, [{Patch, Releases} | Acc]);
                false -> {error, Number}
            end;
        _ -> {error, Number}
    end.

is_release(Word) -> lists:all(fun(C) -> C >= $0 andalso C =< $9 end, Word).

%% @doc Returns the release whose patches another release gets. It is the release itself if it is
%% known, or if all known releases are newer.
-spec nearest(string(), [string()]) -> string().
nearest(Release, Known) ->
    Number = list_to_integer(Release),
    case [N || K <- Known, N <- [list_to_integer(K)], N =< Number] of
        [] -> Release;
        Older -> integer_to_list(lists:max(Older))
    end.

%% @doc Tries all patches for a release on a tarball of its source, and lists the places to which
%% they do not apply. It unpacks only the files that the patches change.
-spec unfit(file:filename(), whittle_runtime:given(), file:filename()) ->
          {ok, [misfit()]} | {error, whittle_runtime:reason()}.
unfit(Dir, #{release := Release, top := Top}, Tarball) ->
    whittle_work:steps(
      [fun(_) -> tool() end,
       fun(_) -> for(Dir, Release) end,
       fun(Patches) -> read_all([Patch || {Patch, _} <- Patches], Dir, []) end,
       fun(Read) ->
               case whittle_unfinished:make_directory("whittle-patches") of
                   {ok, Tree} ->
                       Files = lists:usort(lists:append([Files || {_, Files} <- Read])),
                       Extracted = whittle_source_archive:extract(
                                     Tarball, [filename:join(Top, File) || File <- Files], Tree),
                       Tried = case Extracted of
                                   ok -> {ok, lists:append([misfits(Patch, Changed, Dir, Tree)
                                                            || {Patch, Changed} <- Read])};
                                   {error, _} = Error -> Error
                               end,
                       ok = whittle_unfinished:remove_directory(Tree),
                       Tried;
                   {error, {Base, Reason}} ->
                       {error, whittle_cache_dir:unwritten(Reason, Base)}
               end
       end]).

tool() ->
    case os:find_executable("patch") of
        false -> {error, {no_tool, #{tool => "patch", package => "patch"}}};
        Path -> {ok, Path}
    end.

read_all([], _, Read) -> {ok, lists:reverse(Read)};
read_all([Patch | Patches], Dir, Read) ->
    File = filename:join(Dir, Patch),
    case file:read_file(File) of
        {ok, Text} -> read_all(Patches, Dir, [{Patch, changed(Text)} | Read]);
        {error, Reason} -> {error, {no_native, #{file => File, reason => Reason}}}
    end.

%% The files that a patch changes; not those that it creates.
changed(Text) ->
    case re:run(Text, "^--- a/(\\S+)", [global, multiline, {capture, all_but_first, list}]) of
        {match, Files} -> lists:usort(lists:append(Files));
        nomatch -> []
    end.

%% The flags up to `-N' are those of the build (whittle_recipe_vm). The others keep it from asking
%% questions and from writing further files.
misfits(Patch, Changed, Dir, Tree) ->
    Missing = [File || File <- Changed, not filelib:is_regular(filename:join(Tree, File))],
    Said = whittle_program:capture("patch", ["-d", Tree, "-p1", "-N", "-t", "-r", "-",
                                             "--no-backup-if-mismatch", "-i",
                                             filename:absname(filename:join(Dir, Patch))]),
    Hunks = case Said of
                {ok, _} -> [];
                {error, {status, _, Output}} ->
                    case {hunks(Output), Missing} of
                        {[], []} -> [{lists:flatten(lists:join(", ", Changed)), last_line(Output)}];
                        {Found, _} -> Found
                    end
            end,
    [#{patch => Patch, file => File, why => "the source lacks this file"} || File <- Missing]
        ++ [#{patch => Patch, file => File, why => Why} || {File, Why} <- Hunks].

%% @doc Reads the hunks that patch(1) could not apply from its output, each with its file.
-spec hunks(string()) -> [{File :: string(), Why :: string()}].
hunks(Output) ->
    {_, Found} = lists:foldl(fun hunk/2, {"?", []}, string:split(Output, "\n", all)),
    lists:reverse(Found).

hunk("patching file " ++ File, {_, Found}) -> {string:trim(File, both, "'"), Found};
hunk("Reversed (or previously applied) patch detected!" ++ _, {File, Found}) ->
    {File, [{File, "the source contains the change already"} | Found]};
hunk(Line, {File, Found} = Seen) ->
    case re:run(Line, "^Hunk #([0-9]+) FAILED at ([0-9]+)", [{capture, all_but_first, list}]) of
        {match, [Hunk, At]} -> {File, [{File, "hunk " ++ Hunk ++ ", line " ++ At} | Found]};
        nomatch -> Seen
    end.

last_line(Output) -> lists:last(string:split(string:trim(Output), "\n", all)).
