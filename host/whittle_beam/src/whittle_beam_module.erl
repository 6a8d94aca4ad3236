%% @doc Represents a module as a value: a list of functions with all their references.
%%
%% {@link whittle_beam:disassemble/1} creates the value, and {@link whittle_beam:assemble/2}
%% writes a file of it. The value has no tables beside the functions: the assembler collects their
%% references. So without a function, the entries that only it used disappear too.
-module(whittle_beam_module).

-export([functions/1, chunk/2, keep/2, put/2, missing/1, made/1, set_identity/3]).
-export([function/4, references/1, record_references/1]).

-export_type([t/0, func/0, lambda/0, instruction/0, operand/0, mention/0, use/0]).

-type t() ::
        #{module := module(),
          part_of => module(),              % the owner of the funs, if another module
          functions := [func()],            % in the file's order
          records := [instruction()],           % native records (OTP 29)
          form := form()}.

%% The form of the original file, which the assembler restores.
-type form() ::
        #{max_opcode := non_neg_integer(),
          atoms := short | long,
          literals := none | deflated | plain,
          lines := none | non_neg_integer(),    % flags of the chunk
          types := none | {1..4, Any :: binary()}, % version of the chunk, first entry
          debug := boolean(),
          chunks := [{whittle_beam:chunk_id(), binary()}]}. % as in the file

-type func() ::
        #{name := atom(),
          arity := arity(),
          exported := boolean(),
          alias => atom(),                      % another name under which it is exported
          lambdas := [lambda()],                % the funs that the module makes of it
          info := pos_integer(),                % label for the case that no clause matches
          entry := pos_integer(),               % label of the first instruction
          line := none | operand(),             % its line in the source
          code := [instruction()]}.             % after the label of the entry

%% A fun's identity beside the module's MD5. It does not change when other funs disappear.
-type lambda() ::
        #{index := non_neg_integer(),
          free := non_neg_integer(),            % the number of free variables in the arity
          uniq := non_neg_integer()}.           % the older identity

-type instruction() :: {whittle_beam_op:name(), [operand()]}.

-type operand() ::
        non_neg_integer()                       % a size, a count, flags; or an index
                                                % whose table is missing
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

%% The use of an atom or a literal: the code moves, stores or passes it on; a guard BIF gets it;
%% the code compares it; it is the first element of a tuple that the code builds; it is the key
%% of a map or the name of a record's field.
-type use() :: value | argument | compared | tag | key.

-type mention() ::
        {call, {module(), atom(), arity()}}     % by name, to another module or a BIF
      | {local, {atom(), arity()}}
      | {lambda, {atom(), arity()}, Index :: non_neg_integer()}
      | {atom, atom(), use()}
      | {literal, binary(), use()}.

%% @doc Returns the functions by name and arity.
-spec functions(t()) -> #{{atom(), arity()} => func()}.
functions(#{functions := Functions}) ->
    maps:from_list([{key(Function), Function} || Function <- Functions]).

%% @doc Returns a chunk of the original file. The assembler copies chunks without tables.
-spec chunk(whittle_beam:chunk_id(), t()) -> {ok, binary()} | error.
chunk(Id, #{form := #{chunks := Chunks}}) ->
    case lists:keyfind(Id, 1, Chunks) of
        {Id, Data} -> {ok, Data};
        false -> error
    end.

%% @doc Removes all other functions from the module.
%%
%% {@link missing/1} and the assembler report calls of functions that are gone.
-spec keep(#{{atom(), arity()} => _}, t()) -> t().
keep(Keep, #{functions := Functions} = Module) ->
    Module#{functions := [Function || Function <- Functions, is_map_key(key(Function), Keep)]}.

%% @doc Adds a function to the module.
%%
%% It replaces a function of the same name and arity, or comes after all others.
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

%% @doc Lists the calls and funs of the module that refer to missing functions of the module.
%%
%% Each result is a caller and the function that it refers to.
-spec missing(t()) -> [{{atom(), arity()}, {atom(), arity()}}].
missing(#{functions := Functions} = Module) ->
    There = functions(Module),
    lists:usort([{key(Function), To}
                 || Function <- Functions, Reference <- references(Function),
                    {ok, To} <- [local(Reference)], not is_map_key(To, There)]).

%% @doc Returns the functions that the module makes into funs.
-spec made(t()) -> #{{atom(), arity()} => []}.
made(#{functions := Functions}) ->
    maps:from_list([{To, []} || Function <- Functions, {lambda, To, _} <- references(Function)]).

%% @doc Records in the file the module's MD5 for the VM and the owner of its funs.
%%
%% ERTS with native/patches reads this record. Other ERTS ignore it.
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

%% @doc Creates a function from instructions.
%%
%% In the instructions, label 1 is the target when no clause matches, label 2 is the function's
%% entry, and other labels are free. This code forwards a call to another module:
%% `[{call_ext_only, [Arity, {extfunc, M, F, Arity}]}]'.
-spec function(atom(), arity(), Exported :: boolean(), [instruction()]) -> func().
function(Name, Arity, Exported, Code) ->
    #{name => Name, arity => Arity, exported => Exported, lambdas => [], info => 1, entry => 2,
      line => none, code => Code}.

%% @doc Lists a function's references, in its order and with repetitions.
-spec references(func()) -> [mention()].
references(#{code := Code}) ->
    code_references(Code, whittle_beam_op:names(), []).

%% @doc Lists the references of the module's native records: field names and default values.
-spec record_references(t()) -> [mention()].
record_references(#{records := Records}) ->
    lists:reverse(lists:foldl(fun({call_last, [_Name, _Exported, {list, Fields}]}, Found) ->
                                      listed(Fields, "kv", "kv", Found)
                              end, [], Records)).

%% Internal functions

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

%% Returns the roles of the elements of a list, as a cycle.
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

%% In an unexpected place, assumes the widest use.
use($a) -> argument;
use($t) -> compared;
use($g) -> tag;
use($k) -> key;
use(_) -> value.
