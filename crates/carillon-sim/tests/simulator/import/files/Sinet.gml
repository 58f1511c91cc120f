graph [
  node [
    id 0
    label "Fukuoka DC"
    Longitude 130.42
    Latitude 33.61
  ]
  node [
    id 1
    label "Oita U"
    Longitude 131.61
    Latitude 33.24
  ]
  node [
    id 2
    label "Kyushu U"
    Longitude 131.0
    Latitude 33.0
  ]
  node [
    id 3
    label "Hiroshima U"
    Longitude 132.46
    Latitude 34.4
  ]
  node [
    id 4
    label "Hiroshima DC"
    Longitude 132.46
    Latitude 34.4
  ]
  node [
    id 5
    label "Ehime U"
    Longitude 132.77
    Latitude 33.84
  ]
  node [
    id 6
    label "Yamaguchi U"
    Longitude 131.47
    Latitude 34.19
  ]
  node [
    id 7
    label "Matsuyama DC"
    Longitude 132.77
    Latitude 33.84
  ]
  node [
    id 8
    label "Kagawa U"
    Longitude 134.04
    Latitude 34.34
  ]
  node [
    id 9
    label "Chiba U"
    Longitude 140.12
    Latitude 35.6
  ]
  node [
    id 10
    label "Shinshu U"
    Longitude 133.57
    Latitude 35.17
  ]
  node [
    id 11
    label "Kanazawa U"
    Longitude 136.63
    Latitude 36.59
  ]
  node [
    id 12
    label "Doshisha U"
    Longitude 135.78
    Latitude 34.81
  ]
  node [
    id 13
    label "Nagoya DC"
    Longitude 136.91
    Latitude 35.18
  ]
  node [
    id 14
    label "Shizuoka U"
    Longitude 138.38
    Latitude 34.98
  ]
  node [
    id 15
    label "Nagoya U"
    Longitude 136.91
    Latitude 35.18
  ]
  node [
    id 16
    label "Kanazawa DC"
    Longitude 136.63
    Latitude 36.59
  ]
  node [
    id 17
    label "Toyama U"
    Longitude 137.21
    Latitude 36.7
  ]
  node [
    id 18
    label "Yamanashi U"
    Longitude 138.57
    Latitude 35.66
  ]
  node [
    id 19
    label "U Tokushima"
    Longitude 134.56
    Latitude 34.07
  ]
  node [
    id 20
    label "Tokyo DC3"
    Longitude 139.58
    Latitude 35.61
  ]
  node [
    id 21
    label "Tokyo DC1"
    Longitude 139.58
    Latitude 35.61
  ]
  node [
    id 22
    label "Tokyo DC2"
    Longitude 139.58
    Latitude 35.61
  ]
  node [
    id 23
    label "Keio U"
    Longitude 139.42
    Latitude 35.63
  ]
  node [
    id 24
    label "Niigata U"
    Longitude 139.02
    Latitude 37.9
  ]
  node [
    id 25
    label "Fukui U"
    Longitude 136.22
    Latitude 36.06
  ]
  node [
    id 26
    label "Tsukuba DC"
    Longitude 140.1
    Latitude 36.2
  ]
  node [
    id 27
    label "U Tsukuba"
    Longitude 140.1
    Latitude 36.2
  ]
  node [
    id 28
    label "Gunma U"
    Longitude 139.06
    Latitude 36.39
  ]
  node [
    id 29
    label "U Tokyo"
    Longitude 139.58
    Latitude 35.61
  ]
  node [
    id 30
    label "Kyoto DC"
    Longitude 135.75
    Latitude 35.02
  ]
  node [
    id 31
    label "Kyoto U"
    Longitude 135.75
    Latitude 35.02
  ]
  node [
    id 32
    label "Waseda U"
    Longitude 139.55
    Latitude 38.3
  ]
  node [
    id 33
    label "Kansai U"
    Longitude 136.51
    Latitude 34.27
  ]
  node [
    id 34
    label "Osaka U"
    Longitude 135.5
    Latitude 34.69
  ]
  node [
    id 35
    label "Kobe U"
    Longitude 135.18
    Latitude 34.69
  ]
  node [
    id 36
    label "Tottori U"
    Longitude 134.23
    Latitude 35.5
  ]
  node [
    id 37
    label "Okayama U"
    Longitude 133.94
    Latitude 34.66
  ]
  node [
    id 38
    label "Osaka DC"
    Longitude 135.5
    Latitude 34.69
  ]
  node [
    id 39
    label "Saitama U"
    Longitude 139.66
    Latitude 35.91
  ]
  node [
    id 40
    label "Nagasaki U"
    Longitude 129.87
    Latitude 32.74
  ]
  node [
    id 41
    label "Sapporo DC"
    Longitude 141.35
    Latitude 43.06
  ]
  node [
    id 42
    label "Hokkaido U"
    Longitude 141.35
    Latitude 43.06
  ]
  node [
    id 43
    label "Hirosaki U"
    Longitude 140.47
    Latitude 40.59
  ]
  node [
    id 44
    label "Sendai DC"
    Longitude 140.87
    Latitude 38.27
  ]
  node [
    id 45
    label "Tohoku U"
    Longitude 131.37
    Latitude 32.77
  ]
  node [
    id 46
    label "Kagoshima U"
    Longitude 130.56
    Latitude 31.56
  ]
  edge [
    source 0
    target 40
  ]
  edge [
    source 0
    target 1
  ]
  edge [
    source 0
    target 2
  ]
  edge [
    source 0
    target 4
  ]
  edge [
    source 0
    target 46
  ]
  edge [
    source 0
    target 7
  ]
  edge [
    source 3
    target 4
  ]
  edge [
    source 4
    target 6
  ]
  edge [
    source 4
    target 30
  ]
  edge [
    source 4
    target 36
  ]
  edge [
    source 4
    target 37
  ]
  edge [
    source 5
    target 7
  ]
  edge [
    source 7
    target 19
  ]
  edge [
    source 7
    target 8
  ]
  edge [
    source 7
    target 38
  ]
  edge [
    source 9
    target 22
  ]
  edge [
    source 10
    target 22
  ]
  edge [
    source 11
    target 16
  ]
  edge [
    source 12
    target 30
  ]
  edge [
    source 13
    target 21
  ]
  edge [
    source 13
    target 14
  ]
  edge [
    source 13
    target 15
  ]
  edge [
    source 13
    target 38
  ]
  edge [
    source 16
    target 41
  ]
  edge [
    source 16
    target 22
  ]
  edge [
    source 16
    target 24
  ]
  edge [
    source 16
    target 25
  ]
  edge [
    source 16
    target 30
  ]
  edge [
    source 16
    target 17
  ]
  edge [
    source 18
    target 22
  ]
  edge [
    source 20
    target 22
  ]
  edge [
    source 21
    target 22
  ]
  edge [
    source 21
    target 23
  ]
  edge [
    source 21
    target 26
  ]
  edge [
    source 21
    target 29
  ]
  edge [
    source 21
    target 32
  ]
  edge [
    source 22
    target 28
  ]
  edge [
    source 22
    target 39
  ]
  edge [
    source 26
    target 44
  ]
  edge [
    source 26
    target 27
  ]
  edge [
    source 30
    target 31
  ]
  edge [
    source 30
    target 38
  ]
  edge [
    source 33
    target 38
  ]
  edge [
    source 34
    target 38
  ]
  edge [
    source 35
    target 38
  ]
  edge [
    source 41
    target 42
  ]
  edge [
    source 41
    target 44
  ]
  edge [
    source 43
    target 44
  ]
  edge [
    source 44
    target 45
  ]
]
