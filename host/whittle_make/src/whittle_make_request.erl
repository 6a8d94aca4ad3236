%% @hidden Checks the options of a request: their keys, and the forms of their values.
%%
%% The checks read no file. This module is pure.
-module(whittle_make_request).

-import(whittle_term, [all/2]).
-import(whittle_work, [steps/1]).

-export([check/2, values/1, format_error/1]).

-export_type([error/0, form/0]).

-type error() :: {unknown_option, {term(), Known :: [atom()]}}
               | {bad_value, {atom(), term(), form()}}.

%% The values that an option can have. All but the first form have an example.
-type form() :: {one_of, [atom()]}
              | {none_or_map | text | texts | names | applications | functions | declared,
                 Example :: term()}.

%% @doc Implements {@link whittle_make:check_options/2}. A recording gives the functions of `only',
%% and no file names them.
-spec check(map(), [atom()]) -> ok | {error, error()}.
check(Options, Keys) ->
    steps([fun(_) -> known(Options, Keys) end,
           fun(_) -> values(Options) end,
           fun(_) -> known(shake(Options), keys(shake_forms()) -- [only]) end]).

%% @doc Checks the values of the options, also of those in `shake'. It ignores unknown keys.
-spec values(map()) -> ok | {error, error()}.
values(Options) ->
    steps([fun(_) -> values(forms(), Options) end,
           fun(_) -> values(shake_forms(), shake(Options)) end]).

known(Options, Keys) ->
    case maps:keys(Options) -- Keys of
        [] -> ok;
        [Unknown | _] -> {error, {unknown_option, {Unknown, Keys}}}
    end.

shake(#{shake := #{} = Shake}) -> Shake;
shake(_) -> #{}.

values(Forms, Options) ->
    case [{Key, Value, Form} || {Key, Form} <- Forms, #{Key := Value} <- [Options],
                                not has_form(Value, Form)] of
        [] -> ok;
        [Bad | _] -> {error, {bad_value, Bad}}
    end.

keys(Forms) -> [Key || {Key, _} <- Forms].

%% The callers of a build decide the other options: the input, the output, the passes.
forms() ->
    [{otp, {text, whittle_runtime:default_otp()}},
     {target, {text, "x86_64"}},
     {flavor, {one_of, [size, speed]}},
     {vm, {one_of, [whole, program]}},
     {optimize, {one_of, whittle_runtime:levels()}},
     {format, {one_of, [exe, dir]}},
     {libs, {texts, ["lib"]}},
     {add, {applications, [ssl]}},
     {natives, {texts, ["my.native"]}},
     {outside_links, {one_of, [note, refuse]}},
     {includes, {one_of, [auto, keep]}},
     {attributes, {one_of, [auto, keep]}},
     {shake, {none_or_map, #{unit => functions}}},
     {settings, {text, "my.settings"}},
     {ca_certs, {text, "ca.pem"}}].

shake_forms() ->
    [{unit, {one_of, [functions, modules]}},
     {missing, {one_of, [load, crash]}},
     {on, {names, [inet6]}},
     {off, {names, [inet6]}},
     {only, {functions, [{lists, flatten, 1}]}},
     {declared, {declared, #{atoms => [{lists, flatten, 1}]}}},
     {seen, {one_of, [refuse, keep, only]}},
     {keep_file, {text, "my.keep"}},
     {evidence_file, {text, "my.trace"}}].

has_form(Value, {one_of, Choices}) -> lists:member(Value, Choices);
has_form(Value, {none_or_map, _}) -> Value =:= none orelse is_map(Value);
has_form(Value, {text, _}) -> is_text(Value);
has_form(Value, {texts, _}) -> all(fun is_text/1, Value);
has_form(Value, {names, _}) -> all(fun erlang:is_atom/1, Value);
has_form(Value, {applications, _}) ->
    all(fun(Name) -> is_atom(Name) andalso whittle_file_name:check(Name) =:= ok end, Value);
has_form(Value, {functions, _}) -> all(fun is_mfa/1, Value);
has_form(Value, {declared, _}) ->
    is_map(Value) andalso maps:keys(Value) -- whittle_shake:kinds() =:= []
        andalso lists:all(fun(Names) -> all(fun is_name/1, Names) end, maps:values(Value)).

%% A text is a name or a path, so it has no zero byte.
is_text(Value) -> Value =/= [] andalso io_lib:char_list(Value) andalso not lists:member(0, Value).

is_mfa({M, F, A}) -> is_atom(M) andalso is_atom(F) andalso is_integer(A) andalso A >= 0;
is_mfa(_) -> false.

%% A whittle_shake_name:name()
is_name({M}) -> is_atom(M);
is_name({M, F}) -> is_atom(M) andalso is_atom(F);
is_name(Mfa) -> is_mfa(Mfa).

%% @doc Formats an error as one line for a person. The line ends with the next thing to do.
-spec format_error(error()) -> unicode:chardata().
format_error({unknown_option, {Key, Known}}) ->
    io_lib:format("there is no option `~0tP'~ts: use ~ts",
                  [Key, 8, hint(Key, Known), choice(Known)]);
format_error({bad_value, {Key, Value, {one_of, Choices}}}) ->
    io_lib:format("`~ts' cannot be ~0tP~ts: use ~ts",
                  [Key, Value, 8, hint(Value, Choices), choice(Choices)]);
format_error({bad_value, {Key, Value, {Form, Example}}}) ->
    io_lib:format("`~ts' cannot be ~ts: use ~ts such as ~0tp",
                  [Key, shown(Value, Form), in_words(Form), Example]).

%% Writes a value as it stands in a file. Erlang writes an empty text like an empty list, and a text
%% with a zero byte like a list of numbers.
shown([], text) -> "\"\"";
shown([_ | _] = Value, text) ->
    case io_lib:char_list(Value) of
        true -> io_lib:write_string(Value);
        false -> shown(Value, term)
    end;
shown([First | _] = Value, texts) when is_list(First), length(Value) =< 8 ->
    [$[, lists:join($,, [shown(One, text) || One <- Value]), $]];
shown(Value, _) -> io_lib:format("~0tP", [Value, 8]).

in_words(none_or_map) -> "none, or a map";
in_words(text) -> "a text in quotes,";
in_words(texts) -> "a list of texts in quotes,";
in_words(names) -> "a list of names,";
in_words(applications) -> "a list of names of applications,";
in_words(functions) -> "a list of functions,";
in_words(declared) -> "a map with lists of functions at the keys remote, data, atoms and code,".

hint(Word, Known) when is_atom(Word) -> hint(atom_to_list(Word), Known);
hint(Word, Known) ->
    case is_text(Word) of
        true -> whittle_suggestion:hint(Word, [atom_to_list(One) || One <- Known]);
        false -> ""
    end.

choice(Known) ->
    {First, [Last]} = lists:split(length(Known) - 1, [atom_to_list(One) || One <- Known]),
    [lists:join(", ", First), [" or " || First =/= []], Last].
