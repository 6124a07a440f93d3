"""The keys of `config.toml`, and one clear sentence for everything that can be wrong in it."""



