Nonterminals sum.
Terminals number '+'.
Rootsymbol sum.
Left 100 '+'.
sum -> number : element(3, '$1').
sum -> sum '+' sum : '$1' + '$3'.
