%% @doc Reads, checks and rewrites BEAM files.
%%
%% All functions are pure: they take bytes and return values or bytes. {@link read/1} checks
%% everything that the loader reads before the instructions. So a build finds a damaged file, and
%% not the board. {@link loads_on/2} also checks the instructions.
%%
%% `erts/emulator/beam/beam_file.c' reads this format and `lib/compiler/src/beam_asm.erl' writes
%% it: an IFF form `FOR1' of type `BEAM', with chunks that are padded to four bytes.
-module(whittle_beam).

%% Reading
-export([read/1, module/1, chunks/1, chunk/2, with_chunks/2, terms/2]).
%% Queries
-export([all_atoms/1, imports/1, exports/1, attributes/1, mentions/2, loads_on/2, has_on_load/1]).
-export([identity/1]).
%% Queries that only tests call from outside
-export([size/1, atoms/1, needs_otp/1]).
%% Rewriting
-export([strip/2]).
%% Disassembling: whittle_beam_module works on the result
-export([disassemble/1, assemble/2, literal/1]).
-export([format_error/1]).

-export_type([beam/0, chunk_id/0, strip_options/0, need/0, error/0]).

-type chunk_id() :: <<_:32>>.                   % such as "AtU8"

-type strip_options() ::
        #{keep => [chunk_id()] | all,           % chunks to keep beside those that the
                                                % loader reads; default: none
          types => keep | drop,                 % the chunk `Type', which only the JIT
                                                % uses; default: keep
          lines => keep | drop,                 % the chunk `Line'; default: keep
          paths => keep | drop,                 % directories of source files in the
                                                % chunk `Line', if the paths are
                                                % absolute; default: keep
          literals => keep | {plain, pos_integer()}}. % plain: uncompressed, in a form
                                                % that this OTP release reads;
                                                % default: keep

-type need() :: #{otp := pos_integer(),         % oldest OTP release that loads it
                  why := binary()}.             % the reason

-type error() ::
        {not_beam, binary()}                    % the first bytes of the file
      | {damaged, {chunk_id() | file, atom()}}
      | {obsolete, module_of_otp_20_or_older}
      | {too_old, [Opcode :: pos_integer()]}    % no OTP from 25 on loads these
      | whittle_bounded:too_many()
      | {missing, {Caller :: name(), Called :: name()}} % Called is not in the module
      | {no_lambda, {atom(), arity(), Index :: non_neg_integer()}}
      | {no_label, {name() | none, pos_integer()}}
      | {label_twice, name()}
      | {function_twice, name()}.

-type name() :: {atom(), arity()}.

-record(beam, {module :: module(),
               atoms :: tuple(),
               max_opcode :: non_neg_integer(),
               literals :: {deflated | plain, binary()} | none,
               chunks :: [{chunk_id(), binary()}]}).     % in the file's order
-opaque beam() :: #beam{}.

%% A module's attributes and compiler information are far smaller.
-define(MAX_TERM, 16 * 1024 * 1024).

%% @doc Reads and checks a BEAM file. It inflates a gzipped file.
-spec read(binary()) -> {ok, beam()} | {error, error()}.
read(Bytes) ->
    try
        case whittle_beam_form:chunks(Bytes) of
            {ok, Chunks} -> {ok, read_chunks(Chunks)};
            {error, _} = Unread -> Unread
        end
    catch
        throw:{?MODULE, Error} -> {error, Error}
    end.

%% @doc Returns the module's name.
-spec module(beam()) -> module().
module(#beam{module = Module}) -> Module.

%% @doc Returns the size of each chunk with its header and padding, in the file's order.
-spec size(beam()) -> [{chunk_id(), pos_integer()}].
size(#beam{chunks = Chunks}) ->
    [{Id, whittle_beam_form:size(Data)} || {Id, Data} <- Chunks].

%% @doc Returns the chunks, in the file's order.
-spec chunks(beam()) -> [{chunk_id(), binary()}].
chunks(#beam{chunks = Chunks}) -> Chunks.

%% @doc Returns the bytes of one chunk.
-spec chunk(chunk_id(), beam()) -> {ok, binary()} | error.
chunk(Id, #beam{chunks = Chunks}) ->
    case lists:keyfind(Id, 1, Chunks) of
        {Id, Data} -> {ok, Data};
        false -> error
    end.

%% @doc Returns the file with other chunks of these names. New names come at the end.
-spec with_chunks([{chunk_id(), binary()}], beam()) -> binary().
with_chunks(New, #beam{chunks = Chunks}) ->
    whittle_beam_form:write(lists:foldl(fun({Id, _} = Chunk, Now) ->
                                                lists:keystore(Id, 1, Now, Chunk)
                                        end, Chunks, New)).

%% @doc Decodes the bytes of a chunk that holds a list of terms: `Attr' or `CInf'. A damaged chunk
%% has no terms, because the VM does not read it when it loads the module. Errors: the chunk has
%% more than 16 MB, or more atoms than this VM has room for.
-spec terms(chunk_id(), binary()) -> {ok, [term()]} | {error, error()}.
terms(Id, Data) ->
    case whittle_bounded:term(Data, ?MAX_TERM) of
        {ok, Terms} when length(Terms) >= 0 -> {ok, Terms};
        {ok, _} -> {ok, []};
        {error, not_a_term} -> {ok, []};
        {error, too_large} -> {error, {damaged, {Id, too_large}}};
        {error, {too_many_atoms, _} = Error} -> {error, Error}
    end.

%% @doc Returns the atom table. The first atom is the module's name.
-spec atoms(beam()) -> [atom()].
atoms(#beam{atoms = Atoms}) -> tuple_to_list(Atoms).

%% @doc Returns the atoms that loading creates: those of the table and of literals, sorted. The
%% error is that of the first literal that cannot be decoded.
-spec all_atoms(beam()) -> {ok, [atom()]} | {error, error()}.
all_atoms(Beam) ->
    <<_:32, Terms/binary>> = case inflated_literals(Beam) of
                                 <<>> -> <<0:32>>;
                                 Literals -> Literals
                             end,
    all_atoms([Term || <<Size:32, Term:Size/binary>> <= Terms], atoms(Beam)).

all_atoms([Term | Terms], Found) ->
    case literal(Term) of
        {ok, Read} -> all_atoms(Terms, atoms_in(Read) ++ Found);
        {error, _} = Error -> Error
    end;
all_atoms([], Found) ->
    {ok, lists:usort(Found)}.

atoms_in(Atom) when is_atom(Atom) -> [Atom];
atoms_in([Head | Tail]) -> atoms_in(Head) ++ atoms_in(Tail);
atoms_in(Tuple) when is_tuple(Tuple) -> atoms_in(tuple_to_list(Tuple));
atoms_in(Map) when is_map(Map) -> atoms_in(maps:to_list(Map));
atoms_in(Fun) when is_function(Fun) ->
    [element(2, erlang:fun_info(Fun, Item)) || Item <- [module, name]];
atoms_in(_) -> [].

%% @doc Returns the functions of other modules that the module calls by name.
-spec imports(beam()) -> [mfa()].
imports(#beam{atoms = Atoms} = Beam) ->
    [{element(M, Atoms), element(F, Atoms), A}
     || <<M:32, F:32, A:32>> <= entries(<<"ImpT">>, Beam)].

%% @doc Returns the functions that the module exports.
-spec exports(beam()) -> [{atom(), arity()}].
exports(#beam{atoms = Atoms} = Beam) ->
    [{element(F, Atoms), A}
     || <<F:32, A:32, _Label:32>> <= entries(<<"ExpT">>, Beam)].

%% @doc Returns the module's attributes.
%%
%% The result is `[]' if the file has none, or if this host cannot read them as a term.
-spec attributes(beam()) -> [{atom(), term()}].
attributes(Beam) -> term_chunk(<<"Attr">>, Beam).

%% @doc Tells whether the module contains an atom, in its code or in a literal.
%%
%% The answer `false' is always right. The answer `true' may come from a string in a literal with
%% the same bytes.
-spec mentions(atom(), beam()) -> boolean().
mentions(Atom, #beam{atoms = Atoms} = Beam) ->
    lists:member(Atom, tuple_to_list(Atoms)) orelse
        begin
            Name = atom_to_binary(Atom),
            %% In each of the four atom formats of the external format, the low byte of the
            %% length comes right before the name.
            Pattern = <<(byte_size(Name)):8, Name/binary>>,
            binary:match(inflated_literals(Beam), Pattern) =/= nomatch
        end.

%% @doc Returns the oldest OTP release that can load the module, and the reason.
%%
%% The reason is the newest instruction, a newer form of a chunk, or the compiler's version if
%% the file records it.
-spec needs_otp(beam()) -> need().
needs_otp(Beam) ->
    Needs = [opcode_need(Beam)] ++ format_needs(Beam) ++ compiler_need(Beam),
    hd(lists:sort(fun(#{otp := A}, #{otp := B}) -> A >= B end, Needs)).

%% @doc Tells whether an OTP release loads the module.
%%
%% The module may be too new, or so old that it uses instructions that the release has dropped.
-spec loads_on(Otp :: pos_integer(), beam()) ->
          ok | {error, {needs_newer, need()}
                     | {too_old, [Opcode :: pos_integer()]}
                     | error()}.
loads_on(Otp, Beam) ->
    case needs_otp(Beam) of
        #{otp := Least} = Need when Least > Otp -> {error, {needs_newer, Need}};
        _ ->
            case compiler_need(Beam) of
                %% Each release loads the modules of the three releases before it.
                [#{otp := By}] when By >= Otp - 3 -> ok;
                _ -> loads_instructions(Otp, Beam)
            end
    end.

%% @doc Tells whether the module has an `on_load' function.
-spec has_on_load(beam()) -> boolean().
has_on_load(Beam) ->
    {ok, Code} = chunk(<<"Code">>, Beam),
    #{on_load := {Opcode, _}} = whittle_beam_op:names(),
    case whittle_beam_code:opcodes(Code) of
        {ok, Opcodes} -> lists:member(Opcode, Opcodes);
        error -> false
    end.

%% @doc Returns the MD5 by which the VM identifies a module with these chunks.
%%
%% It is `Module:module_info(md5)', the identity of the module's funs. The file's chunk `Whtl'
%% takes precedence over the MD5 of its chunks: see
%% {@link whittle_beam_module:set_identity/3}.
-spec identity([{chunk_id(), binary()}]) -> <<_:128>>.
identity(Chunks) ->
    case lists:keyfind(<<"Whtl">>, 1, Chunks) of
        {_, <<Md5:16/binary, _/binary>>} -> Md5;
        _ -> erlang:md5([summed(Id, Data) || Id <- summed(), {Found, Data} <- Chunks,
                                             Found =:= Id])
    end.

%% The order is the loader's.
summed() ->
    [<<"AtU8">>, <<"Code">>, <<"StrT">>, <<"ImpT">>, <<"ExpT">>, <<"FunT">>, <<"LitT">>,
     <<"Meta">>, <<"Recs">>, <<"DbgB">>].

%% The MD5 does not include the older identities of funs.
summed(<<"FunT">>, <<Count:4/binary, Funs/binary>>) ->
    [Count, [<<Fun/binary, 0:32>> || <<Fun:20/binary, _:32>> <= Funs]];
summed(_, Data) ->
    Data.

%% @doc Removes the chunks that the loader does not read.
%%
%% It records the module's MD5 in the file if the MD5 would change.
-spec strip(strip_options(), beam()) -> binary().
strip(Options, #beam{chunks = Chunks} = Beam) ->
    Kept = [{Id, rewrite(Id, Data, Options, Beam)} || {Id, Data} <- Chunks, is_kept(Id, Options)],
    Md5 = identity(Chunks),
    whittle_beam_form:write(Kept ++ [{<<"Whtl">>, Md5} || identity(Kept) =/= Md5]).

%% @doc Disassembles the module into functions and resolves every table.
-spec disassemble(beam()) -> {ok, whittle_beam_module:t()} | {error, error()}.
disassemble(#beam{atoms = Atoms, literals = Literals, chunks = Chunks}) ->
    whittle_beam_disasm:module(#{atoms => Atoms, literals => Literals, chunks => Chunks}).

%% @doc Assembles the file of a module.
%%
%% An unchanged module loads as before. If OTP's compiler wrote the file, the bytes are the same.
-spec assemble(whittle_beam_asm:options(), whittle_beam_module:t()) ->
          {ok, binary()} | {error, error()}.
assemble(Options, Module) ->
    whittle_beam_asm:module(Options, Module).

%% @doc Decodes a literal into its term.
-spec literal(binary()) -> {ok, term()} | {error, error()}.
literal(Term) ->
    case whittle_bounded:term(Term, byte_size(Term)) of
        {ok, _} = Read -> Read;
        {error, {too_many_atoms, _} = Error} -> {error, Error};
        {error, _} -> {error, {damaged, {<<"LitT">>, not_a_term}}}
    end.

%% @doc Formats an error as one line for a person. The caller puts the file name before it.
-spec format_error(error()) -> unicode:chardata().
format_error({not_beam, <<>>}) ->
    "is empty; compile the module again";
format_error({not_beam, Head}) ->
    io_lib:format("is not a BEAM file: it begins with ~p; compile the module "
                  "again", [Head]);
format_error({damaged, {file, Why}}) ->
    io_lib:format("is damaged (~ts); compile the module again", [why(Why)]);
format_error({damaged, {Chunk, Why}}) ->
    io_lib:format("is damaged (chunk ~ts ~ts); compile the module again",
                  [printable(Chunk), why(Why)]);
format_error({too_old, Opcodes}) ->
    io_lib:format("has instructions that no OTP since 25 loads (~w); compile the "
                  "module again", [Opcodes]);
format_error({too_many_atoms, Limit}) ->
    whittle_bounded:too_many_atoms(Limit);
format_error({missing, {none, Called}}) ->
    io_lib:format("lacks the function ~ts, which it uses; compile the module again",
                  [printed(Called)]);
format_error({missing, {Caller, Called}}) ->
    io_lib:format("lacks the function ~ts, which its function ~ts calls; compile the module again",
                  [printed(Called), printed(Caller)]);
format_error({no_lambda, {Name, Arity, Index}}) ->
    io_lib:format("makes fun ~b of the function ~ts, which has no such fun; compile the module "
                  "again",
                  [Index, printed({Name, Arity})]);
format_error({no_label, {none, Label}}) ->
    io_lib:format("is damaged (label ~b is missing); compile the module again", [Label]);
format_error({no_label, {Name, Label}}) ->
    io_lib:format("is damaged (~ts jumps to label ~b, which is missing); compile the "
                  "module again", [printed(Name), Label]);
format_error({label_twice, Name}) ->
    io_lib:format("is damaged (~ts has a label twice); compile the module again",
                  [printed(Name)]);
format_error({function_twice, Name}) ->
    io_lib:format("is damaged (~ts occurs twice); compile the module again",
                  [printed(Name)]);
format_error({obsolete, _}) ->
    "was compiled by OTP 20 or older; compile the module again with OTP 25 or "
    "newer".

%% Internal functions: reading

read_chunks(Chunks) ->
    ok = check_ids([Id || {Id, _} <- Chunks]),
    {Max, _Labels} = code_header(need(<<"Code">>, Chunks)),
    {_, Table} = lists:keyfind(<<"AtU8">>, 1, atom_chunk(Chunks)),
    Atoms = list_to_tuple(read_atoms(Table)),
    tuple_size(Atoms) > 0 orelse damaged(<<"AtU8">>, empty),
    Beam = #beam{module = element(1, Atoms), atoms = Atoms, max_opcode = Max,
                 literals = literals(Chunks), chunks = Chunks},
    ok = check_tables(Beam),
    ok = check_literals(Beam),
    Beam.

%% The VM's loader takes the last chunk of a name, and other readers take the first.
check_ids(Ids) ->
    case Ids -- lists:usort(Ids) of
        [] -> ok;
        [Id | _] -> damaged(Id, twice)
    end.

atom_chunk(Chunks) ->
    case {lists:keymember(<<"AtU8">>, 1, Chunks),
          lists:keymember(<<"Atom">>, 1, Chunks)} of
        {true, _} -> Chunks;
        {false, true} ->
            throw({?MODULE, {obsolete, module_of_otp_20_or_older}});
        {false, false} -> damaged(<<"AtU8">>, missing)
    end.

need(Id, Chunks) ->
    case lists:keyfind(Id, 1, Chunks) of
        {Id, Data} -> Data;
        false -> damaged(Id, missing)
    end.

%% A negative count means that the lengths are compact terms (OTP 28). This function creates
%% atoms only after it has found all names.
read_atoms(<<Count:32/signed, Rest/binary>>) ->
    Names = case Count of
                _ when Count >= 0 -> short_names(Count, Rest);
                _ -> long_names(-Count, Rest)
            end,
    in_room(whittle_bounded:make_atoms(length(Names),
                                       fun() -> lists:map(fun to_atom/1, Names) end));
read_atoms(_) ->
    damaged(<<"AtU8">>, cut_off).

short_names(0, _) -> [];
short_names(N, <<Size, Name:Size/binary, Rest/binary>>) ->
    [Name | short_names(N - 1, Rest)];
short_names(_, _) ->
    damaged(<<"AtU8">>, cut_off).

long_names(0, _) -> [];
long_names(N, <<_:5, 0:3, _/binary>> = Length) ->
    case whittle_beam_compact:number(Length) of
        {Size, <<Bytes/binary>>} when Size =< byte_size(Bytes) ->
            <<Name:Size/binary, Rest/binary>> = Bytes,
            [Name | long_names(N - 1, Rest)];
        _ -> damaged(<<"AtU8">>, cut_off)
    end;
long_names(_, _) ->
    damaged(<<"AtU8">>, cut_off).

in_room(ok) -> ok;
in_room({ok, Made}) -> Made;
in_room({error, Error}) -> throw({?MODULE, Error}).

to_atom(Name) ->
    try
        binary_to_atom(Name, utf8)
    catch
        error:_ -> damaged(<<"AtU8">>, bad_atom)
    end.

code_header(<<Size:32, Rest/binary>>) when byte_size(Rest) >= Size, Size >= 16 ->
    case Rest of
        %% Each label and each function takes bytes of the code. The loader allocates memory for as
        %% many as the header claims.
        <<0:32, _:32, Labels:32, Functions:32, _/binary>>
          when Labels > byte_size(Rest); Functions > byte_size(Rest) ->
            damaged(<<"Code">>, wrong_size);
        <<0:32, Max:32, Labels:32, _Functions:32, _/binary>> -> {Max, Labels};
        _ -> damaged(<<"Code">>, unknown_version)
    end;
code_header(_) ->
    damaged(<<"Code">>, cut_off).

literals(Chunks) ->
    case lists:keyfind(<<"LitT">>, 1, Chunks) of
        false -> none;
        {_, <<0:32, Plain/binary>>} -> {plain, Plain};
        {_, <<Size:32, Deflated/binary>>} ->
            case whittle_bounded:inflate(15, Deflated, Size) of
                {ok, Plain} when byte_size(Plain) =:= Size -> {deflated, Plain};
                {ok, _} -> damaged(<<"LitT">>, wrong_size);
                {error, Why} -> damaged(<<"LitT">>, Why)
            end;
        _ -> damaged(<<"LitT">>, cut_off)
    end.

inflated_literals(#beam{literals = none}) -> <<>>;
inflated_literals(#beam{literals = {_, Plain}}) -> Plain.

%% Internal functions: the loader's own checks

check_tables(#beam{atoms = Atoms, chunks = Chunks} = Beam) ->
    Last = tuple_size(Atoms),
    {_, Labels} = code_header(need(<<"Code">>, Chunks)),
    _ = need(<<"StrT">>, Chunks),
    Is = fun(Index) -> Index >= 1 andalso Index =< Last end,
    Check = fun(Id, Fits) -> Fits orelse damaged(Id, wrong_index) end,
    _ = [Check(<<"ImpT">>, Is(M) andalso Is(F) andalso A =< 255)
         || <<M:32, F:32, A:32>> <= entries(<<"ImpT">>, Beam)],
    _ = [Check(<<"ExpT">>, Is(F) andalso A =< 255 andalso L < Labels)
         || <<F:32, A:32, L:32>> <= entries(<<"ExpT">>, Beam)],
    _ = [Check(<<"FunT">>, Is(F) andalso L > 0 andalso L < Labels)
         || lists:keymember(<<"FunT">>, 1, Chunks),
            <<F:32, _:32, L:32, _:96>> <= entries(<<"FunT">>, Beam)],
    ok.

%% Returns the entries of a table, after a check of their number.
entries(Id, #beam{chunks = Chunks}) ->
    Width = case Id of <<"FunT">> -> 24; _ -> 12 end,
    case need(Id, Chunks) of
        <<Count:32, Entries/binary>> when byte_size(Entries) =:= Count * Width ->
            Entries;
        _ -> damaged(Id, wrong_size)
    end.

check_literals(#beam{literals = none}) -> ok;
check_literals(#beam{literals = {_, <<Count:32, Terms/binary>>}}) ->
    ok = check_terms(Count, Terms),
    case whittle_bounded:check_terms([Term || <<Size:32, Term:Size/binary>> <= Terms]) of
        {error, not_a_term} -> damaged(<<"LitT">>, not_a_term);
        Checked -> in_room(Checked)
    end;
check_literals(_) -> damaged(<<"LitT">>, cut_off).

%% The loader takes no term that is deflated on its own (tag 80).
check_terms(0, _) -> ok;
check_terms(N, <<Size:32, Term:Size/binary, Rest/binary>>) ->
    case Term of
        <<131, Tag, _/binary>> when Tag =/= 80 -> check_terms(N - 1, Rest);
        _ -> damaged(<<"LitT">>, not_a_term)
    end;
check_terms(_, _) -> damaged(<<"LitT">>, cut_off).

-spec damaged(chunk_id() | file, atom()) -> no_return().
damaged(Where, Why) -> throw({?MODULE, {damaged, {Where, Why}}}).

%% Internal functions: the OTP release

opcode_need(#beam{max_opcode = Max}) ->
    #{otp => whittle_beam_op:newest_otp(Max),
      why => <<"instruction ", (integer_to_binary(Max))/binary>>}.

format_needs(#beam{literals = Literals, chunks = Chunks}) ->
    {_, AtomTable} = lists:keyfind(<<"AtU8">>, 1, Chunks),
    [#{otp => 28, why => <<"literals that are not deflated">>}
     || {plain, _} <- [Literals]] ++
    [#{otp => 28, why => <<"the atom table's form">>}
     || <<1:1, _/bitstring>> <- [AtomTable]] ++
    [#{otp => 29, why => <<"chunk Recs">>}
     || lists:keymember(<<"Recs">>, 1, Chunks)].

loads_instructions(Otp, Beam) ->
    {ok, Code} = chunk(<<"Code">>, Beam),
    case whittle_beam_code:opcodes(Code) of
        {ok, Opcodes} ->
            Dropped = whittle_beam_op:dropped(Otp),
            case [Opcode || Opcode <- Opcodes, lists:member(Opcode, Dropped)] of
                [] -> ok;
                Old -> {error, {too_old, Old}}
            end;
        error ->
            {error, {damaged, {<<"Code">>, no_instruction}}}
    end.

%% A module of a newer compiler may call functions that an older OTP lacks, even if the older
%% OTP knows every instruction.
compiler_need(Beam) ->
    case proplists:get_value(version, term_chunk(<<"CInf">>, Beam)) of
        Version when is_list(Version) ->
            try [list_to_integer(N) || N <- string:lexemes(Version, ".")] of
                [Major, Minor | _] ->
                    [#{otp => compiler_otp(Major, Minor),
                       why => unicode:characters_to_binary(
                                ["compiler ", Version])}];
                _ -> []
            catch
                error:_ -> []
            end;
        _ -> []
    end.

%% From otp_versions.table.
compiler_otp(8, Minor) when Minor >= 5 -> 27;
compiler_otp(8, Minor) when Minor >= 3 -> 26;
compiler_otp(8, 2) -> 25;
compiler_otp(Major, _) when Major >= 9 -> Major + 19;
compiler_otp(_, _) -> 24.

term_chunk(Id, Beam) ->
    case chunk(Id, Beam) of
        {ok, Data} ->
            case terms(Id, Data) of
                {ok, Terms} -> Terms;
                {error, _} -> []
            end;
        error ->
            []
    end.

%% Internal functions: writing

is_kept(_, #{keep := all}) -> true;
is_kept(<<"Type">>, #{types := drop}) -> false;
is_kept(<<"Type">>, _) -> true;
is_kept(<<"Line">>, #{lines := drop}) -> false;
is_kept(Id, Options) ->
    lists:member(Id, loader_chunks() ++ maps:get(keep, Options, [])).

%% The chunks that beam_file.c reads to run the code. It can do without `Type'. It keeps `Attr'
%% and `CInf' only for module_info. `Whtl' is Whittle's own chunk (native/patches).
loader_chunks() ->
    [<<"AtU8">>, <<"Code">>, <<"StrT">>, <<"ImpT">>, <<"ExpT">>, <<"FunT">>,
     <<"LitT">>, <<"Line">>, <<"Meta">>, <<"Recs">>, <<"DbgB">>, <<"Whtl">>,
     <<"WhtF">>].

rewrite(<<"LitT">>, Data, #{literals := {plain, Otp}},
        #beam{literals = {Form, Plain}}) ->
    if
        Form =:= plain -> Data;
        Otp >= 28 -> <<0:32, Plain/binary>>;
        true -> <<(byte_size(Plain)):32, (whittle_beam_form:stored(Plain))/binary>>
    end;
rewrite(<<"Line">>, Data, #{paths := drop}, _) ->
    whittle_beam_code:without_directories(Data);
rewrite(_, Data, _, _) -> Data.

%% Internal functions: texts

why(cut_off) -> "is cut off";
why(missing) -> "is missing";
why(twice) -> "occurs twice";
why(empty) -> "is empty";
why(bad_atom) -> "contains an invalid atom";
why(unknown_version) -> "is of an unknown version";
why(wrong_size) -> "does not have the size that its header gives";
why(wrong_index) -> "points outside its table";
why(not_deflated) -> "cannot be inflated";
why(not_a_term) -> "contains an invalid term";
why(no_instruction) -> "contains an invalid instruction";
why(function_twice) -> "has a function twice";
why(too_large) -> "is larger than any compiler makes it".

printed({Name, Arity}) -> io_lib:format("~tw/~b", [Name, Arity]).

printable(Chunk) ->
    [case C >= $\s andalso C =< $~ of true -> C; false -> $? end
     || <<C>> <= Chunk].
