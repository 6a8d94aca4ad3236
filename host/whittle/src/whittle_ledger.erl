%% @doc The account of a build: what the release would have been, what each pass
%% took from the code, what is left. Pure.
-module(whittle_ledger).

-export([account/1, text/1]).

-export_type([account/0, input/0, line/0]).

-type input() ::
        #{system := whittle_system:system(),     % after the passes
          runtime := whittle_runtime:runtime(),
          stock_vm := non_neg_integer(),         % bytes of the stock ERTS, stripped
          contents := #{size := pos_integer(),   % of the output
                        vm := pos_integer(),
                        code := non_neg_integer()}, % as stored, with the rest of
                                                 % the tree
          costs => whittle_shake_cost:costs(),   % where it was shaken
          out := file:filename_all()}.

-type line() :: #{pass := binary(), doc := binary(), bytes := non_neg_integer(),
                  applications := #{atom() => non_neg_integer()}}.

-type account() ::
        #{out := binary(), size := pos_integer(), vm := pos_integer(),
          code := non_neg_integer(), target := binary(), flavour := atom(),
          otp := binary(), name := binary(), version := binary(),
          stock := #{size := non_neg_integer(), vm := non_neg_integer(),
                     code := non_neg_integer()},
          costs => whittle_shake_cost:costs(),
          passes := [line()], notes := [binary()]}.

%% @doc The account as data. The stock release is what relx ships: the release's
%% applications as they were read, unstripped, and the stock ERTS.
-spec account(input()) -> account().
account(#{system := System, runtime := Runtime, stock_vm := StockVm,
          contents := #{size := Size, vm := Vm, code := Code}, out := Out} = Input) ->
    Ledger = whittle_system:ledger(System),
    StockCode = stock_code(Ledger, System),
    #{target := Target, flavour := Flavour, otp_vsn := Otp} = Runtime,
    (maps:with([costs], Input))
    #{out => text_of(Out), size => Size, vm => Vm, code => Code,
      name => text_of(whittle_system:name(System)),
      version => text_of(whittle_system:vsn(System)),
      target => text_of(Target), flavour => Flavour, otp => text_of(Otp),
      stock => #{size => StockVm + StockCode, vm => StockVm, code => StockCode},
      passes => [line(Entry) || Entry <- Ledger],
      notes => lists:append([Notes || #{notes := Notes} <- Ledger])}.

%% A release holds what is needed too, so its applications are counted after
%% the pass that takes out the others; not Whittle's own.
stock_code(Ledger, System) ->
    Own = [Name || #{name := Name, origin := #{kind := device}} <- whittle_system:apps(System)],
    Sums = maps:from_list([{Pass, total(maps:without(Own, After))}
                           || #{pass := Pass, 'after' := After} <- Ledger]),
    maps:get(applications, Sums, maps:get(read, Sums, 0)).

line(#{pass := Pass, doc := Doc, 'after' := After}) ->
    #{pass => atom_to_binary(Pass), doc => text_of(Doc), bytes => total(After),
      applications => After}.

total(Sizes) -> lists:sum(maps:values(Sizes)).

%% @doc The account as a table for a person, then the notes.
-spec text(account()) -> unicode:chardata().
text(#{out := Out, size := Size, vm := Vm, code := Code, target := Target,
       flavour := Flavour, otp := Otp, name := Name, version := Version,
       stock := #{size := Stock, vm := StockVm}, passes := Passes, notes := Notes} = Account) ->
    [Name, $\s, Version, " for ", Target, ", OTP ", Otp, ", flavour ",
     atom_to_binary(Flavour), "\n\n",
     whittle_table:text(
       [["", "bytes", ""],
        ["stock release", Stock,
         ["unstripped code, and the stock VM: ", whittle_number:text(StockVm)]]]
       ++ [[["code: ", Pass], Bytes, Doc]
           || #{pass := Pass, bytes := Bytes, doc := Doc} <- Passes]
       ++ [["code: stored", Code, "compressed, with its papers"],
           ["vm", Vm, ""],
           [Out, Size, share(Size, Stock)]]),
     [[$\n, whittle_table:text(Table)]
      || #{costs := Costs} <- [Account], Table <- whittle_shake_cost:tables(Costs)],
     ["\nBytes and memory of code are estimates, before compression. An application or a dynamic "
      "call brings\nwhat would go without it.\n" || #{costs := _} <- [Account]],
     [[$\n, [["note: ", Note, $\n] || Note <- Notes]] || Notes =/= []]].

share(_, 0) -> "";
share(Size, Stock) -> io_lib:format("~.1f % of the stock release", [100 * Size / Stock]).

text_of(Chars) -> unicode:characters_to_binary(Chars).
