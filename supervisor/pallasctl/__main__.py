"""`python -m pallasctl` is `pallasctl`."""

from pallasctl.main import main

main()
