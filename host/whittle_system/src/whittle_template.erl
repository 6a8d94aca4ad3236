%% @doc Reads templates: texts with references to environment variables, `${NAME}' or
%% `${NAME:-DEFAULT}', which the launcher replaces at each start (`native/launcher/template.c').
-module(whittle_template).

-export([with_defaults/2, variables/1, terms_from/1]).

%% The most bytes of a variable's name in the launcher.
-define(MOST_NAME, 255).
%% Stands for a reference in a text that erl_scan reads.
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
%% comments. It leaves out those with a number as their default. If the text is not Erlang without
%% the values, all other variables count.
-spec terms_from(binary()) -> [Name :: binary()].
terms_from(Text) ->
    Pieces = pieces(Text),
    References = [Reference || {_, _} = Reference <- Pieces],
    Marked = [case Piece of
                  {_, _} -> ?MARK;
                  Plain -> Plain
              end || Piece <- Pieces],
    lists:usort([Name || {{Name, Default}, true} <- lists:zip(References, outside(Marked,
                                                                                  References)),
                         not is_number_text(Default)]).

%% Tells of each reference whether it is outside of strings and comments.
outside(Marked, References) ->
    Text = unicode:characters_to_list(Marked),
    case is_list(Text) andalso erl_scan:string(Text, {1, 1}, [return, text]) of
        {ok, Tokens, _} ->
            Found = [not lists:member(erl_scan:category(Token), [string, comment])
                     || Token <- Tokens,
                        _ <- binary:matches(unicode:characters_to_binary(erl_scan:text(Token)),
                                            ?MARK)],
            %% The text may have the mark itself.
            case length(Found) =:= length(References) of
                true -> Found;
                false -> [true || _ <- References]
            end;
        _ -> [true || _ <- References]
    end.

is_number_text(Text) ->
    case erl_scan:string(binary_to_list(Text)) of
        {ok, [{Kind, _, _}], _} -> Kind =:= integer orelse Kind =:= float;
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
