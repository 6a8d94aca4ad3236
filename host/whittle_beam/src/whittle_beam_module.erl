%% @doc A module as a value: its functions, each of which says all that it refers to.
%%
%% Made by {@link whittle_beam:disassemble/1}; {@link whittle_beam:assemble/2} makes
%% a file of it. What a table holds is not kept beside the functions: it is what
%% they refer to. So leaving out a function leaves out what only it used.
-module(whittle_beam_module).

-export([functions/1, chunk/2, keep/2, put/2, missing/1, made/1, set_identity/3]).
-export([function/4, references/1, record_references/1]).

-export_type([t/0, func/0, lambda/0, instruction/0, operand/0, mention/0, use/0]).

-type t() ::
        #{module := module(),
          part_of => module(),              % whose functions these are, if not its own
          functions := [func()],            % in the file's order
          records := [instruction()],           % native records (OTP 29)
          form := form()}.

%% What the file looked like, so that it looks so again.
-type form() ::
        #{max_opcode := non_neg_integer(),
          atoms := short | long,
          literals := none | deflated | plain,
          lines := none | non_neg_integer(),    % flags of the chunk
          types := none | {1..4, Any :: binary()}, % version of the chunk, first entry
          debug := boolean(),
          chunks := [{whittle_beam:chunk_id(), binary()}]}. % as they were read

-type func() ::
        #{name := atom(),
          arity := arity(),
          exported := boolean(),
          alias => atom(),                      % another name that it is exported by
          lambdas := [lambda()],                % as what it is made into a fun
          info := pos_integer(),                % label that failing clauses jump to
          entry := pos_integer(),               % label of the first instruction
          line := none | operand(),             % where it stands in the source
          code := [instruction()]}.             % behind the entry's label

%% What a fun's identity is beside the module's MD5. It stays when others go.
-type lambda() ::
        #{index := non_neg_integer(),
          free := non_neg_integer(),            % of the arity, values that it brings
          uniq := non_neg_integer()}.           % of the older identity

-type instruction() :: {whittle_beam_op:name(), [operand()]}.

-type operand() ::
        non_neg_integer()                       % a size, a count, flags; also what no
                                                % table explains
      | {x | y | fr, non_neg_integer()}
      | {tr, Register :: operand(), Type :: binary() | non_neg_integer()}
      | {integer, integer()} | {atom, atom()} | nil
      | {literal, binary()}                     % a term in the external format
      | {f, non_neg_integer()}                  % a label of this function; 0: none
      | {local, atom(), arity()}                % a function of this module
      | {extfunc, module(), atom(), arity()}
      | {lambda, atom(), arity(), Index :: non_neg_integer()}
      | {location, module | File :: binary(), Line :: non_neg_integer()}
      | {string, binary()}
      | {list, [operand()]}
      | {alloc, [{words | floats | funs, non_neg_integer()}]}
      | {debug, pos_integer(), [instruction()]}.

%% What becomes of an atom or a literal: it is moved, stored or passed on; a guard
%% BIF gets it; it is compared; it is the first element of a tuple that is built; it
%% is the key of a map or the name of a record's field.
-type use() :: value | argument | compared | tag | key.

-type mention() ::
        {call, {module(), atom(), arity()}}     % by name, to another module or a BIF
      | {local, {atom(), arity()}}
      | {lambda, {atom(), arity()}, Index :: non_neg_integer()}
      | {atom, atom(), use()}
      | {literal, binary(), use()}.

%% @doc Its functions by name and arity.
-spec functions(t()) -> #{{atom(), arity()} => func()}.
functions(#{functions := Functions}) ->
    maps:from_list([{key(Function), Function} || Function <- Functions]).

%% @doc A chunk as it was read; those that hold no table of the code come into the
%% file as they are.
-spec chunk(whittle_beam:chunk_id(), t()) -> {ok, binary()} | error.
chunk(Id, #{form := #{chunks := Chunks}}) ->
    case lists:keyfind(Id, 1, Chunks) of
        {Id, Data} -> {ok, Data};
        false -> error
    end.

%% @doc The module with these functions only. Whether they call what is gone,
%% {@link missing/1} tells, and so does assembling.
-spec keep(#{{atom(), arity()} => _}, t()) -> t().
keep(Keep, #{functions := Functions} = Module) ->
    Module#{functions := [Function || Function <- Functions, is_map_key(key(Function), Keep)]}.

%% @doc The module with that function, in the place of one of the same name and
%% arity or behind all others.
-spec put(func(), t()) -> t().
put(Function, #{functions := Functions} = Module) ->
    Key = key(Function),
    case lists:any(fun(Each) -> key(Each) =:= Key end, Functions) of
        true ->
            Module#{functions := [case key(Each) of Key -> Function; _ -> Each end
                                  || Each <- Functions]};
        false ->
            Module#{functions := Functions ++ [Function]}
    end.

%% @doc The calls and funs that lead to functions of the module which are not there:
%% who, and which.
-spec missing(t()) -> [{{atom(), arity()}, {atom(), arity()}}].
missing(#{functions := Functions} = Module) ->
    There = functions(Module),
    lists:usort([{key(Function), To}
                 || Function <- Functions, Reference <- references(Function),
                    {ok, To} <- [local(Reference)], not is_map_key(To, There)]).

%% @doc The functions that are made into funs here.
-spec made(t()) -> #{{atom(), arity()} => []}.
made(#{functions := Functions}) ->
    maps:from_list([{To, []} || Function <- Functions, {lambda, To, _} <- references(Function)]).

%% @doc Has the file say by which MD5 the VM knows the module, and whose its funs are
%% (ERTS with native/patches; others pass over it).
-spec set_identity(<<_:128>>, module(), t()) -> t().
set_identity(Md5, Owner, #{module := Module, form := #{chunks := Chunks} = Form} = Value) ->
    Name = case Owner of
               Module -> <<>>;
               _ -> atom_to_binary(Owner)
           end,
    Value#{form := Form#{chunks := lists:keystore(<<"Whtl">>, 1, Chunks,
                                                  {<<"Whtl">>, <<Md5/binary, Name/binary>>})}}.

local({local, To}) -> {ok, To};
local({lambda, To, _}) -> {ok, To};
local(_) -> none.

%% @doc A function of instructions: in them, label 1 is the one to jump to when no
%% clause fits, 2 the function's entry, and others are free. One that goes on to
%% another module: `[{call_ext_only, [Arity, {extfunc, M, F, Arity}]}]'.
-spec function(atom(), arity(), Exported :: boolean(), [instruction()]) -> func().
function(Name, Arity, Exported, Code) ->
    #{name => Name, arity => Arity, exported => Exported, lambdas => [], info => 1, entry => 2,
      line => none, code => Code}.

%% @doc What a function refers to, in its order and as often as it does.
-spec references(func()) -> [mention()].
references(#{code := Code}) ->
    code_references(Code, whittle_beam_op:names(), []).

%% @doc What the native records of the module refer to: the names of their fields and
%% the values that these have when none is given.
-spec record_references(t()) -> [mention()].
record_references(#{records := Records}) ->
    lists:reverse(lists:foldl(fun({call_last, [_Name, _Exported, {list, Fields}]}, Found) ->
                                      listed(Fields, "kv", "kv", Found)
                              end, [], Records)).

%% Internal

key(#{name := Name, arity := Arity}) -> {Name, Arity}.

code_references([{Name, Operands} | Code], Names, Found) ->
    #{Name := {_, Roles}} = Names,
    code_references(Code, Names, references(Operands, Roles, Found));
code_references([], _, Found) ->
    lists:reverse(Found).

references([{atom, _} = Atom | More], [Role | Roles], Found) ->
    references(More, Roles, used(Atom, Role, Found));
references([{literal, _} = Literal | More], [Role | Roles], Found) ->
    references(More, Roles, used(Literal, Role, Found));
references([{extfunc, M, F, A} | More], [_ | Roles], Found) ->
    references(More, Roles, [{call, {M, F, A}} | Found]);
references([{local, F, A} | More], [_ | Roles], Found) ->
    references(More, Roles, [{local, {F, A}} | Found]);
references([{lambda, F, A, Index} | More], [_ | Roles], Found) ->
    references(More, Roles, [{lambda, {F, A}, Index} | Found]);
references([{list, [Tag | Elements]}], "P", Found) ->
    listed(Elements, "v", "v", references([Tag], "g", Found));
references([{list, List}], [Role], Found) ->
    Cycle = cycle(Role),
    listed(List, Cycle, Cycle, Found);
references([_ | More], [_ | Roles], Found) ->
    references(More, Roles, Found);
references([], [], Found) ->
    Found.

listed([Operand | More], [Role | Roles], Cycle, Found) ->
    listed(More, Roles, Cycle, references([Operand], [Role], Found));
listed([_ | _] = List, [], Cycle, Found) -> listed(List, Cycle, Cycle, Found);
listed([], _, _, Found) -> Found.

%% What the elements of a list are, in turn.
cycle($S) -> "t-";
cycle($M) -> "kv";
cycle($K) -> "k";
cycle($G) -> "k-";
cycle($U) -> "-v";
cycle($C) -> "n";
cycle($b) -> "nnnnvv";
cycle(_) -> "v".

used(_, $n, Found) -> Found;
used(_, $m, Found) -> Found;                    % call_fun2: `safe' or `unsafe'
used({Kind, What}, Role, Found) -> [{Kind, What, use(Role)} | Found].

%% Where none is expected, the most that can become of it.
use($a) -> argument;
use($t) -> compared;
use($g) -> tag;
use($k) -> key;
use(_) -> value.
