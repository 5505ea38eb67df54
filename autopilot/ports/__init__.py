"""The Protocols that the engine calls, with their outcome types; fakes that ship live beside the real thing."""
