defmodule Desk.MixProject do
  use Mix.Project

  def project do
    [app: :desk, version: "0.1.0", elixir: "~> 1.14", deps: []]
  end

  def application, do: [mod: {Desk, []}, extra_applications: [:logger]]
end
