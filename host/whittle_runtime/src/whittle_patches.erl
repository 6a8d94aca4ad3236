%% @hidden Reads which patches belong to a release of OTP's source.
%%
%% `native/patches/series' lists the patches and their releases.
-module(whittle_patches).

-export([for/2]).
%% Pure function, exported for tests
-export([parse/1]).

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
                    digests([P || {P, Rs} <- Series, lists:member(Release, Rs)],
                            Dir, []);
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
        [Patch, Releases] ->
            parse(Lines, Number + 1, [{Patch, string:lexemes(Releases, ",")} | Acc]);
        _ -> {error, Number}
    end.
