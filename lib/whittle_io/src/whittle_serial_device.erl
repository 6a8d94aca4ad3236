%% @hidden Finds the paths of serial devices, and the devices that this machine has.
-module(whittle_serial_device).

-export([path/1, list/0, list/1]).
-export_type([found/0]).

-type found() :: #{name := string(), path := file:filename(), driver := string(),
                   %% The USB number, as its four hexadecimal digits.
                   vendor_id => string(), product_id => string(),
                   manufacturer => string(), product => string(), serial_number => string()}.

-define(CLASS, "/sys/class/tty").

%% @doc Gives the path in bytes. A name without a slash is in /dev.
-spec path(term()) -> {ok, binary()} | {error, {bad_option, term()} | enoent}.
path(Device) when is_list(Device); is_binary(Device) ->
    case bytes(Device) of
        {ok, <<>>} -> {error, enoent};
        {ok, Bytes} ->
            case {binary:match(Bytes, <<0>>), binary:match(Bytes, <<"/">>)} of
                {nomatch, nomatch} -> {ok, <<"/dev/", Bytes/binary>>};
                {nomatch, _} -> {ok, Bytes};
                _ -> {error, {bad_option, Device}}
            end;
        error -> {error, {bad_option, Device}}
    end;
path(Device) -> {error, {bad_option, Device}}.

bytes(Device) when is_binary(Device) -> {ok, Device};
bytes(Device) ->
    %% The code does not use the module unicode, because a shaken program would then contain its
    %% tables for this name.
    try {ok, << <<Char/utf8>> || Char <- Device >>}
    catch error:_ -> error
    end.

%% @doc Lists the devices that have a driver. Consoles and pseudo-terminals have none.
-spec list() -> [found()].
list() -> list(?CLASS).

%% @doc Lists the devices of a directory like /sys/class/tty.
-spec list(file:filename()) -> [found()].
list(Class) ->
    case file:list_dir(Class) of
        {ok, Names} -> lists:append([look(Class, Name) || Name <- lists:sort(Names)]);
        {error, _} -> []
    end.

look(Class, Name) ->
    Device = filename:join([Class, Name, "device"]),
    %% A port without hardware, for which the 8250 driver has room, is of type 0.
    Type = attribute(filename:join([Class, Name, "type"])),
    case file:read_link(filename:join(Device, "driver")) of
        {ok, Driver} when Type =/= "0" ->
            [maps:merge(#{name => Name, path => "/dev/" ++ Name,
                          driver => filename:basename(Driver)}, usb(Device))];
        _ -> []
    end.

%% The device of the tty is the interface (as of cdc_acm), or one below it (as of usb-serial). The
%% USB device is the directory above the interface.
usb(Device) ->
    case [Dir || Up <- ["..", "../.."], Dir <- [filename:join(Device, Up)],
                 attribute(filename:join(Dir, "idVendor")) =/= none] of
        [Dir | _] ->
            Names = [{vendor_id, "idVendor"}, {product_id, "idProduct"},
                     {manufacturer, "manufacturer"}, {product, "product"},
                     {serial_number, "serial"}],
            maps:from_list([{Key, Value} || {Key, File} <- Names,
                                            Value <- [attribute(filename:join(Dir, File))],
                                            Value =/= none]);
        [] -> #{}
    end.

attribute(File) ->
    case file:read_file(File) of
        {ok, Text} -> binary_to_list(hd(binary:split(Text, <<"\n">>)));
        {error, _} -> none
    end.
