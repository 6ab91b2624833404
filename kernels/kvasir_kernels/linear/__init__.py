"""Linear layers, alone and with the gated activation behind them."""
