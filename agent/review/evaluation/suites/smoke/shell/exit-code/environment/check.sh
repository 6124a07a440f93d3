echo checking
exit 7
