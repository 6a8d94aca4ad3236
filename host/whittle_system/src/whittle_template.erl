%% @doc Reads templates: texts with references to environment variables, `${NAME}' or
%% `${NAME:-DEFAULT}', which the launcher replaces at each start (`native/launcher/template.c').
-module(whittle_template).

-export([with_defaults/2, completed/3, variables/1, terms_from/1]).

%% The most bytes of a variable's name in the launcher.
-define(MOST_NAME, 255).
%% Stands for a reference in a text of which the scanner makes tokens.
-define(MARK, <<"whittle_reference">>).

%% @doc Replaces each reference by its default, or by another text if it has none.
-spec with_defaults(binary(), Other :: binary()) -> binary().
with_defaults(Text, Other) -> completed(Text, #{}, Other).

%% @doc Replaces each reference by the value of its variable. Without a value, or with an empty one,
%% it becomes its default, or another text if it has none.
-spec completed(binary(), #{Name :: binary() => binary()}, Other :: binary()) -> binary().
completed(Text, Values, Other) ->
    iolist_to_binary([case Piece of
                          {Name, Default} -> value(maps:get(Name, Values, <<>>), Default, Other);
                          Plain -> Plain
                      end || Piece <- pieces(Text)]).

value(<<>>, <<>>, Other) -> Other;
value(<<>>, Default, _) -> Default;
value(Value, _, _) -> Value.

%% @doc Lists the variables of a template.
-spec variables(binary()) -> [Name :: binary()].
variables(Text) -> lists:usort([Name || {Name, _} <- pieces(Text), is_name(Name)]).

%% The launcher also replaces text such as `${, $}', which is two characters of Erlang.
is_name(Name) -> re:run(Name, "^\\w+$", [{capture, none}, dollar_endonly]) =:= match.

%% @doc Lists the variables that give a configuration its terms, and not only parts of strings and
%% comments. It leaves out a variable with a number as its default if no letters or digits touch it.
%% If the text is not Erlang without the values, all other variables count.
-spec terms_from(binary()) -> [Name :: binary()].
terms_from(Text) ->
    Pieces = pieces(Text),
    References = [Reference || {_, _} = Reference <- Pieces],
    Marked = iolist_to_binary([case Piece of
                                   {_, _} -> ?MARK;
                                   Plain -> Plain
                               end || Piece <- Pieces]),
    Marks = binary:matches(Marked, ?MARK),
    case length(Marks) =:= length(References) of
        true ->
            lists:usort([Name || {{Name, Default}, Mark, true}
                                     <- lists:zip3(References, Marks, outside(Marked, Marks)),
                                 is_name(Name),
                                 is_touched(Mark, Marked) orelse not is_number_text(Default)]);
        %% The text has the mark itself.
        false -> variables(Text)
    end.

%% Tells of each mark whether it is outside of strings and comments.
outside(Marked, Marks) ->
    Tokens = case whittle_term:all_tokens(Marked) of
                 {ok, All} -> All;
                 error -> []
             end,
    Found = [not lists:member(erl_scan:category(Token), [string, comment])
             || Token <- Tokens,
                _ <- binary:matches(unicode:characters_to_binary(erl_scan:text(Token)), ?MARK)],
    %% A token may begin within a mark: `$whittle_reference' is a character and an atom.
    case length(Found) =:= length(Marks) of
        true -> Found;
        false -> [true || _ <- Marks]
    end.

is_touched({At, Length}, Marked) ->
    Around = [binary:at(Marked, Place) || Place <- [At - 1, At + Length],
                                          Place >= 0, Place < byte_size(Marked)],
    lists:any(fun(C) -> C >= $a andalso C =< $z orelse C >= $A andalso C =< $Z
                            orelse C >= $0 andalso C =< $9 orelse C =:= $_ orelse C =:= $@
              end, Around).

is_number_text(Text) ->
    case whittle_term:parse(<<Text/binary, " .">>) of
        {ok, [Number]} -> is_number(Number);
        _ -> false
    end.

%% Splits a text into plain texts and references.
pieces(Text) ->
    case binary:split(Text, <<"${">>) of
        [Before, After] ->
            case name(After) of
                {ok, Name, Rest} ->
                    case binary:split(Rest, <<"}">>) of
                        [Default, Behind] -> [Before, {Name, without_sign(Default)}
                                              | pieces(Behind)];
                        %% Without a brace there are no further references.
                        [_] -> [Text]
                    end;
                none -> [Before, <<"${">> | pieces(After)]
            end;
        [_] -> [Text]
    end.

name(Text) ->
    Scope = {0, min(byte_size(Text), ?MOST_NAME + 2)},
    case binary:match(Text, [<<"}">>, <<":-">>], [{scope, Scope}]) of
        {At, _} when At > 0, At =< ?MOST_NAME ->
            <<Name:At/binary, Rest/binary>> = Text,
            {ok, Name, Rest};
        _ -> none
    end.

without_sign(<<":-", Default/binary>>) -> Default;
without_sign(<<>>) -> <<>>.
