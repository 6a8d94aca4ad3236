%% @doc Reads the text in which a VM describes itself: a crash dump, or the answers of
%% `erlang:system_info/1' to `info', `procs' and `loaded', which have the same format.
%%
%% The format is described in "How to Interpret the Erlang Crash Dumps" of ERTS. The text has a
%% section for each allocator, process and table. This module reads the sections that say something
%% about memory, and ignores the others. It never fails: a section or a line that is missing, as in
%% a file that was cut off, gives no number.
-module(whittle_measure_dump).

-export([parse/1, sections/1, word/1, fields/1, number/2, name/1]).

-export_type([vm/0, allocator/0, process/0, table/0, section/0, fields/0]).

%% The name of a section, without its `=', and its lines.
-type section() :: {binary(), binary()}.

%% The lines `key: value' of a section.
-type fields() :: #{binary() => binary()}.

%% The account of a VM. All sizes are in bytes.
-type vm() ::
        #{otp := binary(),                      % the OTP release, or <<>> if the text lacks it
          memory := #{binary() => integer()},   % as erlang:memory/0; empty under +Mea min
          areas := #{binary() => integer()},    % as erlang:system_info(allocated_areas)
          allocators := #{binary() => allocator()},
          processes := [process()],             % the largest first
          process_count := non_neg_integer(),
          port_count := non_neg_integer(),
          atom_count := non_neg_integer(),
          tables := [table()]}.                 % ETS tables, the largest first

%% The sum over all instances of one allocator. An allocator that is off has no carriers.
-type allocator() ::
        #{blocks := non_neg_integer(), carriers := non_neg_integer(),
          most_blocks := non_neg_integer(), most_carriers := non_neg_integer()}.

-type process() :: #{name := binary(), memory := non_neg_integer(),
                     unused := non_neg_integer()}.  % of its heaps

-type table() :: #{name := binary(), memory := non_neg_integer()}.

%% @doc Parses the text.
-spec parse(binary()) -> vm().
parse(Text) ->
    Sections = sections(Text),
    Word = word(Sections),
    Processes = [process(Lines, Word) || {<<"proc:", _/binary>>, Lines} <- Sections],
    #{otp => otp(Sections),
      memory => numbers(<<"memory">>, Sections),
      areas => numbers(<<"allocated_areas">>, Sections),
      allocators => allocators(Sections),
      processes => largest(Processes),
      process_count => length(Processes),
      port_count => length([port || {<<"port:", _/binary>>, _} <- Sections]),
      atom_count => maps:get(<<"entries">>, numbers(<<"index_table:atom_tab">>, Sections), 0),
      tables => largest([table(Lines, Word) || {<<"ets:", _/binary>>, Lines} <- Sections])}.

%% @doc Splits the text into its sections. The first one holds what stands before all others.
-spec sections(binary()) -> [section()].
sections(Text) ->
    %% A crash dump begins with a section, an answer may begin with an empty line.
    [section(Part) || Part <- binary:split(<<"\n", Text/binary>>, <<"\n=">>, [global])].

section(Part) ->
    case binary:split(Part, <<"\n">>) of
        [Name, Lines] -> {Name, Lines};
        [Name] -> {Name, <<>>}
    end.

%% @doc Returns the bytes of a word of the VM. The first line of a dump names the size of a word:
%% `[64-bit]'. A VM with 32 bits does not name it.
-spec word([section()]) -> 4 | 8.
word([{_, Head}, {_, Head2} | _]) ->
    case binary:match(<<Head/binary, Head2/binary>>, <<"[64-bit]">>) of
        nomatch -> 4;
        _ -> 8
    end;
word(_) -> 8.

otp(Sections) ->
    Heads = [Lines || {_, Lines} <- lists:sublist(Sections, 2)],
    case re:run(iolist_to_binary(Heads), "Erlang/OTP (\\d+)", [{capture, all_but_first, binary}]) of
        {match, [Otp]} -> Otp;
        nomatch -> <<>>
    end.

largest(Items) ->
    lists:sort(fun(#{memory := One}, #{memory := Other}) -> One >= Other end, Items).

%% Internal functions: lines

%% The first number of each line `key: number ...'.
numbers(Name, Sections) ->
    maps:from_list([{Key, Number} || {Of, Lines} <- Sections, Of =:= Name,
                                     {Key, [Number | _]} <- values(Lines)]).

%% The keys of lines, with the numbers behind them.
values(Lines) ->
    [{Key, Numbers} || Line <- binary:split(Lines, <<"\n">>, [global]),
                       [Key, Rest] <- [binary:split(Line, <<": ">>)],
                       [_ | _] = Numbers <- [integers(Rest)]].

integers(Text) ->
    [binary_to_integer(Word) || Word <- binary:split(Text, <<" ">>, [global, trim_all]),
                                is_number_text(Word)].

%% No size and no count has more digits. A longer number would not fit into a float.
is_number_text(Word) ->
    byte_size(Word) =< 19
        andalso lists:all(fun(Char) -> Char >= $0 andalso Char =< $9 end, binary_to_list(Word)).

%% @doc Reads the lines `key: value' of a section.
-spec fields(binary()) -> fields().
fields(Lines) ->
    maps:from_list([{Key, Value} || Line <- binary:split(Lines, <<"\n">>, [global]),
                                    [Key, Value] <- [binary:split(Line, <<": ">>)]]).

%% @doc Returns the first number of a field, or 0.
-spec number(binary(), fields()) -> non_neg_integer().
number(Key, Fields) ->
    case integers(maps:get(Key, Fields, <<>>)) of
        [Value | _] -> Value;
        [] -> 0
    end.

%% @doc Returns the name of a process: its registered name, or its first function.
-spec name(fields()) -> binary().
name(#{<<"Name">> := Name}) -> Name;
name(#{<<"Spawned as">> := Function}) -> Function;
name(_) -> <<"unknown">>.

%% Internal functions: allocators

%% A section stands for one instance: `allocator:eheap_alloc[1]'. Its numbers are those of now, of
%% the time since the last question, and of the whole time.
allocators(Sections) ->
    lists:foldl(
      fun({<<"allocator:", Instance/binary>>, Lines}, Before) ->
              [Name | _] = binary:split(Instance, <<"[">>),
              case binary:longest_common_suffix([Name, <<"_alloc">>]) of
                  6 when Name =/= <<"mseg_alloc">>, Name =/= <<"sys_alloc">> ->
                      One = instance(Name, Lines),
                      maps:update_with(Name, fun(Old) -> added(One, Old) end, One, Before);
                  _ -> Before
              end;
         (_, Before) -> Before
      end, #{}, Sections).

added(One, Other) -> maps:map(fun(Key, Value) -> Value + maps:get(Key, Other) end, One).

%% Multiblock carriers (mbcs) and single block carriers (sbcs). Since OTP 24 a carrier of one
%% allocator may hold blocks of another: `mbcs blocks[eheap_alloc] size'. `mbcs_pool' has the
%% carriers that wait for another instance.
%% The VM writes a crash dump with a block of temp_alloc, in a carrier of its own (mseg). Neither
%% was there before.
instance(Name, Lines) ->
    Values = values(Lines),
    Sum = fun(Pattern, Place) ->
                  lists:sum([lists:nth(min(Place, length(Numbers)), Numbers)
                             || {Key, Numbers} <- Values,
                                re:run(Key, Pattern, [{capture, none}]) =:= match])
          end,
    Blocks = "^(mbcs|sbcs|mbcs_pool) blocks(\\[\\w+\\])? size$",
    Carriers = case Name of
                   <<"temp_alloc">> -> "^(mbcs|sbcs) sys_alloc carriers size$";
                   _ -> "^(mbcs|sbcs|mbcs_pool) carriers size$"
               end,
    Size = Sum(Carriers, 1),
    #{blocks => min(Sum(Blocks, 1), Size), carriers => Size,
      most_blocks => Sum(Blocks, 3), most_carriers => Sum(Carriers, 3)}.

%% Internal functions: processes and tables

%% `Memory' is in bytes, the sizes of heaps are in words.
process(Lines, Word) ->
    Fields = fields(Lines),
    #{name => name(Fields), memory => number(<<"Memory">>, Fields),
      unused => Word * (number(<<"Heap unused">>, Fields) + number(<<"OldHeap unused">>, Fields))}.

table(Lines, Word) ->
    Fields = fields(Lines),
    #{name => maps:get(<<"Name">>, Fields, <<"unknown">>),
      memory => Word * lists:sum(integers(maps:get(<<"Words">>, Fields, <<>>)))}.
