%% Writes common_test's events for each case at once, one Erlang term in a line. So a node that dies
%% leaves its results and the name of the running case. This module runs inside the node under
%% test, compiled by its OTP.
-module(otp_suites_events).
-behaviour(gen_event).

-export([init/1, handle_event/2, handle_call/2, handle_info/2, terminate/2]).

%% A reason is for a person; common_test's own log has all of it.
-define(DEPTH, 40).
-define(LENGTH, 1500).

-spec init(file:filename()) -> {ok, file:io_device()}.
init(File) ->
    {ok, Handle} = file:open(File, [write, raw]),
    {ok, Handle}.

%% The first element is common_test's record name. Not every OTP has its header file.
handle_event({event, tc_start, _Node, {_Suite, What}}, Handle) ->
    say({started, name(What)}, Handle);
handle_event({event, tc_done, _Node, {_Suite, What, Result}}, Handle) ->
    {Outcome, Reason} = result(Result),
    say({done, name(What), Outcome, Reason}, Handle);
handle_event({event, tc_auto_skip, _Node, {_Suite, What, Reason}}, Handle) ->
    {Outcome, Words} = result({auto_skipped, Reason}),
    say({done, name(What), Outcome, Words}, Handle);
handle_event({event, tc_user_skip, _Node, {_Suite, What, Reason}}, Handle) ->
    say({done, name(What), skipped, words(Reason)}, Handle);
handle_event({event, test_done, _Node, _}, Handle) ->
    say(finished, Handle);
handle_event(_, Handle) ->
    {ok, Handle}.

handle_call(_, Handle) -> {ok, ok, Handle}.

handle_info(_, Handle) -> {ok, Handle}.

terminate(_, Handle) -> file:close(Handle).

say(Term, Handle) ->
    ok = file:write(Handle, unicode:characters_to_binary(io_lib:format("~0tp.~n", [Term]))),
    {ok, Handle}.

name({Conf, Group, _Properties}) -> {Conf, Group};
name(What) -> What.

result(ok) -> {passed, ""};
result({skipped, Reason}) -> {skipped, words(Reason)};
%% The suite requires the makers' laboratory: machines with certain names.
result({auto_skipped, {require_failed, _} = Reason}) -> {skipped, words(Reason)};
result({auto_skipped, Reason}) -> {lost, words(Reason)};
result({failed, Reason}) -> {failed, words(Reason)}.

words(Reason) ->
    Text = case io_lib:printable_unicode_list(Reason) of
               true -> Reason;
               false -> lists:flatten(io_lib:format("~0tP", [Reason, ?DEPTH]))
           end,
    string:slice(lists:flatten(string:replace(Text, "\n", " ", all)), 0, ?LENGTH).
