Definitions.
Rules.
[0-9]+ : {token, {number, TokenLine, list_to_integer(TokenChars)}}.
\+ : {token, {'+', TokenLine}}.
\s+ : skip_token.
Erlang code.
