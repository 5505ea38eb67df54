"""A training under the real agent on this computer, taken away as machines are: does it go on from its checkpoint?"""
