"""The command `kperfir`: one file a command. Child processes load `children` alone."""
