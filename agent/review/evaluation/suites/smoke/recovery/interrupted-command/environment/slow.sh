sleep 1
echo done > done.txt
