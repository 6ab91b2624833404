"""The typed model of the API, and the nouns that travel between the operator's parts."""
