import Config

# Generators of Phoenix and Nerves write this form: the given value, or a default.
if config_env() == :prod do
  copies = String.to_integer(System.get_env("COPIES") || "1")

  title =
    case System.fetch_env("TITLE") do
      {:ok, text} -> text |> String.trim() |> String.upcase()
      :error -> "DESK"
    end

  config :desk, title: title, copies: copies, printer: Desk.Plain
end

config :logger, :console, format: "$level: $message\n", level: :info
