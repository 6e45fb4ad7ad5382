"""The methods: `interface.py` says what one is, then one file a method. A user's own is `package.module:Class`."""
