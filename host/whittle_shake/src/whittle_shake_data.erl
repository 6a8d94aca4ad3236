%% @hidden Finds the names in packed files and in the module lists of `.app' files, and the data in
%% packed files that turns features on.
%%
%% The program may read packed files. A file in a `priv' directory of the program counts if it is
%% one of these: terms that `file:consult/1' reads, a schema or a script with expressions, a term
%% in the external format, or a table on disk. A compressed file counts too. The search looks at
%% the content, because programs choose the names of their files. The names count only where the
%% program has a function that reads terms or Erlang text.
-module(whittle_shake_data).

-export([data/2, check_texts/1, unread/1, lists/3]).

-export_type([data/0, found/0, lists/0]).

%% The functions that read, those of them that may read an `.app' file, and what they may read.
-type data() ::
        none
      | #{readers := #{mfa() => []},
          consults := #{mfa() => []},
          found := fun(() -> found())}.

-type found() ::
        #{calls := [{mfa(), whittle_shake_reach:origin()}],
          atoms := [{atom(), whittle_shake_reach:origin()}],
          uses := [{whittle_shake_feature:use(), whittle_shake_reach:origin()}]}. % tags and forms

%% The functions that list modules, and the modules.
-type lists() :: none | #{by := #{mfa() => []}, modules := [module()]}.

%% The number of bytes in which a file of an unknown kind must hold a whole term. The limit keeps
%% the reading of other kinds of files short.
-define(FIRST_TERM, 16384).

%% The largest size of a packed term, in bytes after decompression.
-define(MAX_TERM, 256 * 1024 * 1024).

%% @doc Checks that this VM has room for the names in all packed files of Erlang or Elixir text, and
%% that scripts have few enough aliases. The error names the file to shorten. The limit of
%% `too_many_names' is the number of atoms with which all files fit, and that of `too_many_aliases'
%% the number of modules that the names of a script may mean.
-spec check_texts(whittle_system:system()) ->
          ok | {error, {too_many_names | too_many_aliases,
                        {whittle_system:path(), Limit :: pos_integer()}}}.
check_texts(System) ->
    Texts = [{Kind, Path, Plain}
             || {Path, Bytes} <- files(System),
                {Kind, Plain} <- [inflated(filename:extension(Path), Path, Bytes)],
                is_text(Kind, Plain)],
    case whittle_bounded:check_text(iolist_to_binary([[Plain, $\n] || {_, _, Plain} <- Texts])) of
        ok ->
            check_scripts([{Path, Plain} || {<<".exs">>, Path, Plain} <- Texts]
                          ++ whittle_shake_source:scripts(System));
        {error, {too_many_atoms, Limit}} ->
            [First | _] = [Path || {_, Path, Plain} <- Texts,
                                   whittle_bounded:check_text(Plain) =/= ok]
                ++ [Path || {_, Path} <- lists:reverse(lists:sort([{byte_size(Plain), Path}
                                                                   || {_, Path, Plain} <- Texts]))],
            {error, {too_many_names, {First, Limit}}}
    end.

check_scripts([{Path, Bytes} | Scripts]) ->
    case whittle_shake_source:check_aliases(Bytes) of
        ok -> check_scripts(Scripts);
        {error, {too_many_aliases, Limit}} -> {error, {too_many_aliases, {Path, Limit}}}
    end;
check_scripts([]) ->
    ok.

%% @doc Lists the packed archives, the files that are compressed in a way that the search does not
%% read (formats other than gzip and zlib, twice, or to more than 256 MB), and the external terms
%% with more than 256 MB or too many names.
-spec unread(whittle_system:system()) -> [whittle_system:path()].
unread(System) ->
    [Path || {Path, Bytes} <- files(System),
             {_, Plain} <- [inflated(filename:extension(Path), Path, Bytes)], is_unread(Plain)].

%% @doc Collects the names in packed files. They count as soon as a function reads such data.
-spec data(whittle_system:system(), #{module() => whittle_shake_summary:summary()}) -> data().
data(System, Modules) ->
    #{readers => maps:from_keys(whittle_shake_dynamic:data(), []),
      consults => maps:from_keys(consults() ++ whittle_shake_dynamic:scanners(), []),
      found => fun() -> in_files(System, Modules) end}.

%% @doc Finds the functions of the program that ask an application for its modules. It also lists
%% the modules of all applications that are not OTP's. A function that takes the key as an
%% argument counts through its callers that mention `modules'.
-spec lists(whittle_system:system(), Program :: #{module() => []},
            #{module() => whittle_shake_summary:summary()}) -> lists().
lists(System, Program, Modules) ->
    Functions = [{{M, F, A}, Function}
                 || {M, #{functions := Here}} <- maps:to_list(maps:with(maps:keys(Program),
                                                                        Modules)),
                    {{F, A}, Function} <- maps:to_list(Here)],
    Direct = [Mfa || {Mfa, #{forms := Forms}} <- Functions, lists:member(module_list, Forms)],
    Any = maps:from_list([{Mfa, []} || {Mfa, #{forms := Forms}} <- Functions,
                                       lists:member(application_key, Forms)]),
    Through = [Mfa || map_size(Any) > 0, {Mfa, #{calls := Calls, atoms := Atoms}} <- Functions,
                      lists:member(modules, Atoms),
                      lists:any(fun(Call) -> is_map_key(Call, Any) end, [Mfa | Calls])],
    #{by => maps:from_keys(Direct ++ Through, []),
      modules => lists:sort([M || #{modules := Own, origin := #{kind := input}}
                                      <- whittle_system:apps(System), M <- maps:keys(Own)])}.

%% Internal

%% The files that the user packs: those of applications, and those beside the configuration of a
%% release.
files(System) ->
    whittle_system:input_files(System)
        ++ [{Path, Bytes} || {Path, #{bytes := Bytes}}
                                 <- lists:sort(maps:to_list(whittle_system:files(System)))].

%% These functions read a file of terms.
consults() ->
    [{file, F, A} || {F, A} <- [{consult, 1}, {path_consult, 2}, {script, 1}, {script, 2},
                                {path_script, 2}, {path_script, 3}]]
        ++ [{io, read, A} || A <- [1, 2, 3, 4]].

in_files(System, Modules) ->
    Found = [{[{Mfa, From} || Mfa <- Calls], [{Atom, From} || Atom <- Atoms],
              [{Use, From} || Use <- Uses]}
             || {Path, Bytes} <- files(System),
                {Kind, Plain} <- [inflated(filename:extension(Path), Path, Bytes)],
                {Calls, Atoms, Uses} <- in_file(Kind, Plain, Modules),
                From <- [{root, Path}]],
    {Calls, Atoms, Uses} = lists:unzip3(Found),
    #{calls => lists:append(Calls), atoms => lists:append(Atoms), uses => lists:append(Uses)}.

%% Decompresses a gzip file or a zlib stream, and returns the kind of the content. Data that
%% another program reads, such as scripts for a browser, stays compressed.
inflated(<<".gz">>, Path, Bytes) ->
    %% The name may have several such endings. Each step makes it shorter.
    Name = filename:rootname(Path),
    Inner = filename:extension(Name),
    case lists:member(Inner, other_kinds()) of
        true -> {Inner, <<>>};
        false when Name =:= Path -> inflated(<<>>, Path, Bytes);
        false -> inflated(Inner, Name, Bytes)
    end;
inflated(Kind, _, <<16#1F, 16#8B, _/binary>> = Bytes) ->
    {Kind, inflated_or_as_is(31, Bytes)};
inflated(Kind, _, <<Header:16, _/binary>> = Bytes)
  when Header bsr 8 =:= 16#78, Header rem 31 =:= 0 ->
    {Kind, inflated_or_as_is(15, Bytes)};
inflated(Kind, _, Bytes) ->
    {Kind, Bytes}.

inflated_or_as_is(WindowBits, Bytes) ->
    case whittle_bounded:inflate(WindowBits, Bytes, ?MAX_TERM) of
        {ok, Plain} -> Plain;
        {error, _} -> Bytes
    end.

%% A term beyond the limits, or an archive.
is_unread(<<131, _/binary>> = Bytes) ->
    case whittle_bounded:term(Bytes, ?MAX_TERM) of
        {ok, _} -> false;
        {error, Reason} -> Reason =/= not_a_term
    end;
is_unread(Bytes) -> is_packed(Bytes).

%% An escript may have an archive behind its first lines.
is_packed(<<"PK", 3, 4, _/binary>>) -> true;                                % zip
is_packed(<<"#!", _/binary>> = Bytes) -> binary:match(Bytes, <<"PK", 3, 4>>) =/= nomatch;
is_packed(<<_:257/binary, "ustar", _/binary>>) -> true;                     % tar
is_packed(<<16#1F, 16#8B, _/binary>>) -> true;                              % gzip
is_packed(<<"BZh", Level, _/binary>>) when Level >= $1, Level =< $9 -> true; % bzip2
is_packed(<<16#FD, "7zXZ", 0, _/binary>>) -> true;                          % xz
is_packed(<<"7z", 16#BC, 16#AF, 16#27, 16#1C, _/binary>>) -> true;          % 7z
is_packed(<<16#28, 16#B5, 16#2F, 16#FD, _/binary>>) -> true;                % zstd
is_packed(_) -> false.

is_text(_, <<131, _/binary>>) -> false;
is_text(<<".exs">>, _) -> true;
is_text(Kind, Bytes) -> is_erlang(Kind, Bytes).

in_file(_, <<131, _/binary>> = Bytes, _) ->
    case whittle_bounded:term(Bytes, ?MAX_TERM) of
        {ok, Term} -> [in_term(Term)];
        {error, _} -> []
    end;
in_file(<<".exs">>, Bytes, Modules) ->
    {Calls, Atoms} = whittle_shake_source:in_elixir(Bytes, Modules),
    [{Calls, Atoms, []}];
in_file(Kind, Bytes, Modules) ->
    case whittle_shake_dets:terms(Bytes, ?MAX_TERM) of
        {ok, Terms} -> [in_term(Terms)];
        none -> [in_erlang(Bytes, Modules) || is_erlang(Kind, Bytes)]
    end.

in_term(Term) ->
    {whittle_shake_summary:funs(Term), whittle_shake_summary:atoms(Term),
     whittle_shake_summary:uses(Term)}.

in_erlang(Bytes, Modules) ->
    {Calls, Atoms} = whittle_shake_source:in_erlang(Bytes, Modules),
    {Calls, Atoms, whittle_shake_source:uses(Bytes)}.

%% Decides by the usual names of files, then by the first term.
is_erlang(Kind, Bytes) ->
    case lists:member(Kind, [<<".config">>, <<".schema">>, <<".script">>, <<".erl">>, <<".hrl">>,
                             <<".escript">>, <<".app">>, <<".appup">>, <<".rel">>, <<".terms">>]) of
        true -> true;
        false -> not is_of_another_kind(Kind, Bytes)
                     andalso whittle_term:begins(Bytes, ?FIRST_TERM)
    end.

is_of_another_kind(Kind, Bytes) ->
    lists:member(Kind, other_kinds())
        orelse binary:match(Bytes, <<0>>, [{scope, {0, min(?FIRST_TERM, byte_size(Bytes))}}])
                   =/= nomatch.

other_kinds() ->
    [<<".js">>, <<".css">>, <<".html">>, <<".json">>, <<".svg">>, <<".md">>, <<".map">>,
     <<".po">>, <<".pot">>, <<".xml">>, <<".csv">>, <<".so">>].
