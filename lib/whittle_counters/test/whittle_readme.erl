%% Runs the Erlang code in the first section of a README.
-module(whittle_readme).

-export([first_use/2, run/2, define/1]).

%% Returns the blocks of Erlang in the section `First use' of the README of the suite's
%% application.
first_use(Suite, Application) ->
    Source = proplists:get_value(source, Suite:module_info(compile)),
    Device = filename:dirname(filename:dirname(filename:dirname(Source))),
    {ok, Text} = file:read_file(filename:join([Device, Application, "README.md"])),
    [_, Rest] = binary:split(Text, <<"## First use\n">>),
    [Section | _] = binary:split(Rest, <<"\n## ">>),
    {match, Blocks} = re:run(Section, "```erlang\n(.*?)```",
                             [global, dotall, {capture, [1], list}]),
    [Block || [Block] <- Blocks].

%% Evaluates expressions, and returns their variables.
run(Block, Bindings) ->
    {ok, Tokens, _} = erl_scan:string(Block),
    {ok, Expressions} = erl_parse:parse_exprs(Tokens),
    {value, _, Bound} = erl_eval:exprs(Expressions, Bindings),
    Bound.

%% Compiles and loads a module.
define(Block) ->
    {ok, Module, Code} = compile:forms(forms(Block, 1), [return_errors]),
    {module, Module} = code:load_binary(Module, "README.md", Code),
    Module.

forms(Text, Line) ->
    case erl_scan:tokens([], Text, Line) of
        {done, {ok, Tokens, Next}, Rest} ->
            {ok, Form} = erl_parse:parse_form(Tokens),
            [Form | forms(Rest, Next)];
        _ -> []
    end.
