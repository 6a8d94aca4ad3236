%% @doc Lists changes to a program's code that would save memory, each with its measured gain.
%%
%% A crash dump contains the live terms of each process, all literals and all atoms, so it tells
%% which memory a process would have after hibernation, and which binaries live only for a few of
%% their bytes. It contains no rows of ETS tables; {@link whittle_tune_live} gets those from a
%% running node. docs/tune.md describes each kind of change.
%% @hidden
-module(whittle_tune_changes).

-import(whittle_measure_dump, [sections/1, word/1, fields/1, number/2, name/1]).

-export([from_dump/1, gain/1, worth/1, rows/1, notes/1, json/1]).

-export_type([changes/0, change/0, kind/0]).

-type kind() :: hibernate | binary | table | atoms | literals.

%% `now' and `then' are bytes, before and after the change. `how' says how they were measured.
-type change() :: #{kind := kind(), name := unicode:chardata(), now := non_neg_integer(),
                    then := non_neg_integer(), how := unicode:chardata()}.

%% `notes' name the kinds that this account cannot measure, and the command that can.
-type changes() :: #{changes := [change()], notes := [unicode:chardata()]}.

%% The gain below which a change is not worth a line, and the lines of one kind.
-define(LEAST_GAIN, 4096).
-define(LINES, 8).
%% A binary is listed if its parts take at most this part of it.
-define(SMALL_PART, 4).
%% The least number of atoms that differ only in their digits.
-define(FAMILY, 32).
%% The characters of a literal string that its line shows.
-define(SHOWN, 24).

%% The words of terms (erl_term.h, erl_map.h, erl_bits.h of OTP 25 and 29). For those that differ
%% between releases, the largest stands here, so that no gain is too large. A part of a binary
%% counts with its reference.
-define(CONS, 2).
-define(BINARY_PART, 12).
-define(HEAP_BINARY, 2).
-define(MAP, 3).
-define(HASH_MAP, 2).
-define(OTHER, 8).
%% The bytes of a binary outside of heaps, besides its contents.
-define(BINARY, 40).
%% An atom: its structure, its entries in two tables, and the head of its text.
-define(ATOM_WORDS, 9).

-record(heap, {words = 0 :: non_neg_integer(),
               hidden = false :: boolean(),     % true: a function has variables, which are missing
               parts = [] :: [{binary(), non_neg_integer(), non_neg_integer()}],
               %% From the addresses of objects to those of their binaries, or `inside' for a binary
               %% on the heap itself.
               wholes = #{} :: #{binary() => binary() | inside}}).

%% @doc Reads the changes from a crash dump.
-spec from_dump(binary()) -> changes().
from_dump(Text) ->
    Sections = sections(Text),
    Word = word(Sections),
    Heaps = maps:from_list([{Pid, heap(Lines, Word)}
                            || {<<"proc_heap:", Pid/binary>>, Lines} <- Sections]),
    Processes = [{Pid, fields(Lines)} || {<<"proc:", Pid/binary>>, Lines} <- Sections],
    Active = maps:from_list([{Pid, active} || {<<"proc:", Pid/binary>>, Lines} <- Sections,
                                              has_arguments(Lines)]),
    Waiting = [{Fields, maps:get(Pid, Heaps)}
               || {Pid, Fields} <- Processes, is_idle(Fields), is_map_key(Pid, Heaps),
                  not is_map_key(Pid, Active)],
    Literals = lists:append([lines(Lines) || {<<"literals">>, Lines} <- Sections]),
    Hibernating = [hibernating(Fields, Heap, Word)
                   || {Fields, #heap{hidden = false} = Heap} <- Waiting],
    Hidden = [Fields || {Fields, #heap{hidden = true}} <- Waiting,
                        Word * heap_words(Fields) >= ?LEAST_GAIN],
    #{changes => worth(Hibernating
                       ++ held(Processes, Heaps, Literals, Sections, Word)
                       ++ families([Line || {<<"atoms">>, Lines} <- Sections,
                                            Line <- lines(Lines)], Word)
                       ++ strings(Literals, Word)),
      notes => notes(Hidden, Sections)}.

notes(Hidden, Sections) ->
    Measure = "To measure these: `whittle tune --explain --node NAME'",
    Tables = [Name || {Name, _} <- Sections, is_section(<<"ets:">>, Name)],
    [io_lib:format("~b of the processes that wait hold functions with variables, which a crash "
                   "dump lacks. ~ts", [length(Hidden), Measure]) || Hidden =/= []]
        ++ ["A crash dump has no rows of ETS tables, so it does not tell which of them compress "
            "well. " ++ Measure || Tables =/= []]
        ++ ["The crash dump is not complete, so there may be more changes."
            || not lists:keymember(<<"end">>, 1, Sections)].

%% @doc Returns the bytes that a change saves.
-spec gain(change()) -> integer().
gain(#{now := Now, then := Then}) -> Now - Then.

%% @doc Keeps the changes that save enough, the best of each kind first.
-spec worth([change()]) -> [change()].
worth(Changes) ->
    Enough = lists:sort(fun(One, Other) -> gain(One) >= gain(Other) end,
                        [Change || Change <- Changes, gain(Change) >= ?LEAST_GAIN]),
    lists:append([lists:sublist([Change || #{kind := Of} = Change <- Enough, Of =:= Kind], ?LINES)
                  || Kind <- [hibernate, binary, table, atoms, literals]]).

%% @doc Writes the changes as the rows of a table. The first row is the head.
-spec rows(changes()) -> [[unicode:chardata() | integer()]].
rows(#{changes := Changes}) ->
    [["change to the code", "bytes now", "bytes then", "measured by"]
     | [[title(Kind, Name), Now, Then, How]
        || #{kind := Kind, name := Name, now := Now, then := Then, how := How} <- Changes]].

title(hibernate, Name) -> ["let the process hibernate: ", Name];
title(binary, Name) -> ["copy a part of a binary: ", Name];
title(table, Name) -> ["compress the ETS table: ", Name];
title(atoms, Name) -> ["use no atoms for ", Name];
title(literals, Name) -> ["use a binary for the string ", Name].

%% @doc Returns the lines below the table.
-spec notes(changes()) -> [unicode:chardata()].
notes(#{notes := Notes}) -> Notes.

%% @doc Returns the changes as data (docs/json.md).
-spec json(changes()) -> whittle_json:json().
json(#{changes := Changes, notes := Notes}) ->
    #{list => [Change#{name := binary(Name), how := binary(How)}
               || #{name := Name, how := How} = Change <- Changes],
      notes => [binary(Note) || Note <- Notes]}.

binary(Text) -> unicode:characters_to_binary(Text).

%% Internal functions: sections and fields

is_section(Prefix, Name) -> binary:longest_common_prefix([Prefix, Name]) =:= byte_size(Prefix).

lines(Lines) -> binary:split(Lines, <<"\n">>, [global, trim_all]).

%% Internal functions: processes

%% A process that has messages would wake up at once.
is_idle(#{<<"State">> := <<"Waiting">>} = Fields) ->
    number(<<"Message queue length">>, Fields) =:= 0;
is_idle(_) -> false.

%% A process that hibernates has its terms in the arguments of its next call. The dump lacks them.
has_arguments(Lines) -> re:run(Lines, "^arity = [1-9]", [multiline, {capture, none}]) =:= match.

heap_words(Fields) -> number(<<"Stack+heap">>, Fields) + number(<<"OldHeap">>, Fields)
                          + number(<<"Heap fragment data">>, Fields).

%% Hibernation leaves the live terms and no stack.
hibernating(Fields, #heap{words = Live}, Word) ->
    Now = number(<<"Memory">>, Fields),
    #{kind => hibernate, name => name(Fields), now => Now,
      then => min(Now, max(0, Now - Word * heap_words(Fields)) + Word * Live),
      how => "its live terms in the crash dump"}.

heap(Lines, Word) -> lists:foldl(fun(Line, Heap) -> object(Line, Heap, Word) end, #heap{},
                                 lines(Lines)).

%% `ADDRESS:TYPE...'
object(Line, #heap{words = Words} = Heap, Word) ->
    case binary:split(Line, <<":">>) of
        [Address, Object] ->
            case Object of
                <<"l", _/binary>> -> Heap#heap{words = Words + ?CONS};
                <<"t", Rest/binary>> -> Heap#heap{words = Words + 1 + hex(Rest)};
                <<"Yh", Rest/binary>> ->
                    Heap#heap{words = Words + ?HEAP_BINARY + rounded(hex(Rest), Word),
                              wholes = (Heap#heap.wholes)#{Address => inside}};
                <<"Y", _, Rest/binary>> -> part(Address, Rest, Heap);
                <<"Mf", Rest/binary>> -> Heap#heap{words = Words + ?MAP + hex(Rest)};
                <<"Mh", Rest/binary>> ->
                    [_ | Nodes] = binary:split(Rest, <<":">>),
                    Heap#heap{words = Words + ?HASH_MAP + hex(iolist_to_binary(Nodes))};
                <<"Mn", Rest/binary>> -> Heap#heap{words = Words + 1 + hex(Rest)};
                <<"F", _/binary>> -> Heap#heap{words = Words + 1 + 8 div Word};
                <<"B", Digits/binary>> ->
                    Heap#heap{words = Words + 1 + rounded(byte_size(Digits), Word)};
                <<"E", _/binary>> ->
                    Heap#heap{words = Words + ?OTHER,
                              hidden = Heap#heap.hidden orelse has_variables(Object)};
                _ -> Heap#heap{words = Words + ?OTHER}
            end;
        _ -> Heap
    end.

rounded(Bytes, Word) -> (Bytes + Word - 1) div Word.

hex(Text) ->
    [Digits | _] = binary:split(Text, [<<":">>, <<",">>]),
    try binary_to_integer(Digits, 16)
    catch error:badarg -> 0
    end.

%% The external format of a function: NEW_FUN_EXT.
has_variables(Object) ->
    [_, Encoded] = binary:split(Object, <<":">>),
    try base64:decode(binary:part(Encoded, 0, 44)) of
        <<131, 112, _:32, _, _:16/binary, _:32, Variables:32, _/binary>> -> Variables > 0;
        _ -> false
    catch
        error:_ -> false
    end.

%% Internal functions: binaries

%% `Yc' refers to a binary outside of heaps, `Ys' to one of those or to another object of the heap.
part(Address, Rest, #heap{words = Words, parts = Parts, wholes = Wholes} = Heap) ->
    case binary:split(Rest, <<":">>, [global]) of
        [Of, From, Size | _] ->
            Heap#heap{words = Words + ?BINARY_PART, parts = [{Of, hex(From), hex(Size)} | Parts],
                      wholes = Wholes#{Address => Of}};
        _ -> Heap#heap{words = Words + ?BINARY_PART}
    end.

%% Binaries of which processes hold only small parts. A literal keeps its binary in any case.
held(Processes, Heaps, Literals, Sections, Word) ->
    Listed = maps:from_list([{Address, hex(Lines)}
                             || {<<"binary:", Address/binary>>, Lines} <- Sections]),
    Kept = maps:from_list([{Of, literal} || Line <- Literals,
                                            [_, <<"Y", _, Rest/binary>>]
                                                <- [binary:split(Line, <<":">>)],
                                            [Of | _] <- [binary:split(Rest, <<":">>)]]),
    Found = [{real(Of, Wholes), name(Fields), From, Size, Fields}
             || {Pid, Fields} <- Processes,
                #{Pid := #heap{parts = Some, wholes = Wholes}} <- [Heaps],
                {Of, From, Size} <- Some],
    Unlisted = lists:append([unlisted(Owner, Listed, Word) || Owner <- owners(Found)]),
    Sizes = maps:merge(maps:from_list(Unlisted), Listed),
    Parts = lists:usort([{Of, Name, From, Size} || {Of, Name, From, Size, _} <- Found]),
    Grouped = lists:foldl(fun({Of, Name, _, Size}, Before) ->
                                  maps:update_with(Of, fun(Old) -> [{Name, Size} | Old] end,
                                                   [{Name, Size}], Before)
                          end, #{}, Parts),
    joined([holder(Holders, maps:get(Of, Sizes))
            || {Of, Holders} <- maps:to_list(Grouped), is_map_key(Of, Sizes),
               not is_map_key(Of, Kept)]).

real(Of, Wholes) -> maps:get(Of, Wholes, Of).

%% Each process with the binaries that it refers to.
owners(Found) ->
    maps:to_list(lists:foldl(fun({inside, _, _, _, _}, Before) -> Before;
                                ({Of, _, _, _, Fields}, Before) ->
                                     maps:update_with(Fields, fun(Old) -> [Of | Old] end, [Of],
                                                      Before)
                             end, #{}, Found)).

%% Before OTP 27, a dump lacks a binary if a process refers only to parts of it. The process counts
%% the words of all its binaries; so the size of one that is missing is known.
unlisted({Fields, Addresses}, Listed, Word) ->
    All = lists:usort(Addresses),
    case [Of || Of <- All, not is_map_key(Of, Listed)] of
        [Missing] ->
            Words = number(<<"BinVHeap">>, Fields) + number(<<"OldBinVHeap">>, Fields),
            [{Missing, max(0, Word * Words - lists:sum([maps:get(Of, Listed)
                                                        || Of <- All, Of =/= Missing]))}];
        _ -> []
    end.

holder(Holders, Bytes) ->
    Held = lists:sum([Size || {_, Size} <- Holders]),
    Names = lists:join(", ", lists:usort([Name || {Name, _} <- Holders])),
    {unicode:characters_to_binary(Names), ?BINARY + Bytes,
     case Held * ?SMALL_PART =< Bytes of
         true -> length(Holders) * ?BINARY + Held;
         false -> ?BINARY + Bytes
     end}.

%% One line for all binaries that the same processes hold.
joined(Holders) ->
    Sums = lists:foldl(fun({Name, Now, Then}, Before) when Then < Now ->
                               maps:update_with(Name, fun({Count, OldNow, OldThen}) ->
                                                              {Count + 1, OldNow + Now,
                                                               OldThen + Then}
                                                      end, {1, Now, Then}, Before);
                          (_, Before) -> Before
                       end, #{}, Holders),
    [#{kind => binary, name => Name, now => Now, then => Then,
       how => io_lib:format("the size and the used parts, of binaries: ~b", [Count])}
     || {Name, {Count, Now, Then}} <- maps:to_list(Sums)].

%% Internal functions: atoms and literals

%% Atoms that differ only in their digits are made at run time, and never collected.
families(Atoms, Word) ->
    Families = lists:foldl(
                 fun(Atom, Before) ->
                         case re:replace(Atom, "[0-9]+", "N", [global, {return, binary}]) of
                             Atom -> Before;
                             Family ->
                                 Bytes = Word * (?ATOM_WORDS + rounded(byte_size(Atom), Word)),
                                 maps:update_with(Family, fun({Count, Sum}) ->
                                                                  {Count + 1, Sum + Bytes}
                                                          end, {1, Bytes}, Before)
                         end
                 end, #{}, Atoms),
    [#{kind => atoms, name => Family, now => Bytes, then => 0,
       how => io_lib:format("~b atoms of this form in the crash dump", [Count])}
     || {Family, {Count, Bytes}} <- maps:to_list(Families), Count >= ?FAMILY].

%% `ADDRESS:lI104|HADDRESS': each character of a string takes two words.
strings(Literals, Word) ->
    Cells = maps:from_list([{Address, {Char, Next}}
                            || Line <- Literals,
                               [Address, <<"lI", Cell/binary>>] <- [binary:split(Line, <<":">>)],
                               [Head, Next] <- [binary:split(Cell, <<"|">>)],
                               Char <- [character(Head)], Char =/= none]),
    Inner = maps:from_list([{Address, inner}
                            || {_, <<"H", Address/binary>>} <- maps:values(Cells)]),
    [string(Text, Word) || Address <- maps:keys(Cells), not is_map_key(Address, Inner),
                           [_ | _] = Text <- [characters(Address, Cells)]].

character(Digits) ->
    try binary_to_integer(Digits) of
        Char when Char >= 0, Char < 256 -> Char;
        _ -> none
    catch
        error:badarg -> none
    end.

characters(Address, Cells) ->
    case Cells of
        #{Address := {Char, <<"H", Next/binary>>}} ->
            case characters(Next, Cells) of
                none -> none;
                Text -> [Char | Text]
            end;
        #{Address := {Char, <<"N">>}} -> [Char];
        _ -> none
    end.

string(Text, Word) ->
    Length = length(Text),
    #{kind => literals, name => io_lib:format("~0tp...", [printable(lists:sublist(Text, ?SHOWN))]),
      now => Length * ?CONS * Word,
      then => Word * ?BINARY_PART + ?BINARY + Word * rounded(Length, Word),
      how => io_lib:format("its ~b characters in the crash dump", [Length])}.

printable(Text) -> [case Char >= $\s andalso Char < 127 of true -> Char; false -> $. end
                    || Char <- Text].
