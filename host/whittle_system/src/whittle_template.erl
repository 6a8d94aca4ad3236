%% @doc Reads templates: texts with references to environment variables, `${NAME}' or
%% `${NAME:-DEFAULT}', which the launcher replaces at each start (`native/launcher/template.c').
-module(whittle_template).

-export([with_defaults/2, variables/1, terms_from/1]).

%% The most bytes of a variable's name in the launcher.
-define(MOST_NAME, 255).
%% Stands for a reference in a text of which the scanner makes tokens.
-define(MARK, <<"whittle_reference">>).

%% @doc Replaces each reference by its default, or by another text if it has none.
-spec with_defaults(binary(), Other :: binary()) -> binary().
with_defaults(Text, Other) ->
    iolist_to_binary([case Piece of
                          {_, <<>>} -> Other;
                          {_, Default} -> Default;
                          Plain -> Plain
                      end || Piece <- pieces(Text)]).

%% @doc Lists the variables of a template.
-spec variables(binary()) -> [Name :: binary()].
variables(Text) -> lists:usort([Name || {Name, _} <- pieces(Text)]).

%% @doc Lists the variables that give a configuration its terms, and not only parts of strings and
%% comments. It leaves out a variable with a number as its default if no other text touches it.
%% If the text is not Erlang without the values, all other variables count.
-spec terms_from(binary()) -> [Name :: binary()].
terms_from(Text) ->
    Pieces = pieces(Text),
    References = [Reference || {_, _} = Reference <- Pieces],
    Marked = iolist_to_binary([case Piece of
                                   {_, _} -> ?MARK;
                                   Plain -> Plain
                               end || Piece <- Pieces]),
    Placed = lists:zip(References, places(Marked, References)),
    lists:usort([Name || {{Name, Default}, Place} <- Placed,
                         Place =:= part
                             orelse Place =:= whole andalso not is_number_text(Default)]).

%% Tells of each reference whether it is a whole token or part of one. `text' stands for strings and
%% comments.
places(Marked, References) ->
    case whittle_term:all_tokens(Marked) of
        {ok, Tokens} ->
            Found = lists:append([places(Token) || Token <- Tokens]),
            %% The text may have the mark itself.
            case length(Found) =:= length(References) of
                true -> Found;
                false -> [whole || _ <- References]
            end;
        error -> [whole || _ <- References]
    end.

places(Token) ->
    Text = unicode:characters_to_binary(erl_scan:text(Token)),
    Place = case lists:member(erl_scan:category(Token), [string, comment]) of
                true -> text;
                false when Text =:= ?MARK -> whole;
                false -> part
            end,
    [Place || _ <- binary:matches(Text, ?MARK)].

is_number_text(Text) ->
    case whittle_term:all_tokens(Text) of
        {ok, [Token]} -> lists:member(erl_scan:category(Token), [integer, float]);
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
