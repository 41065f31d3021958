"""A distribution's user space and kernel in a virtual machine, from the reset to the login."""
